package delivery

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The guide gives the times of attempts as the code has them.
func TestTheGuideHasTheScheduleOfAttempts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/integrate.md")
	if err != nil {
		t.Fatal(err)
	}
	pauses := make([]string, len(delays))
	for i, d := range delays {
		switch {
		case d >= time.Hour:
			pauses[i] = fmt.Sprintf("%d h", d/time.Hour)
		case d >= time.Minute:
			pauses[i] = fmt.Sprintf("%d min", d/time.Minute)
		default:
			pauses[i] = fmt.Sprintf("%d s", d/time.Second)
		}
	}
	last := len(pauses) - 1
	want := fmt.Sprintf("The %d attempts of one event come after pauses of %s and %s", attemptsMax,
		strings.Join(pauses[:last], ", "), pauses[last])
	if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
		t.Errorf("docs/integrate.md does not say %q", want)
	}
}
