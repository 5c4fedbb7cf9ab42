package deposit

import (
	"encoding/json"
	"fmt"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/webhook"
)

// thresholds are an organization's own: both or neither decide. A deposit is
// screened when its value is above usd, and held when what the screening says is
// above severity. They cannot be set yet.
type thresholds struct {
	severity *string
	usd      *money.USD
}

// screened is what the screening of a deposit came to.
type screened struct {
	status string // of webhook.Screening
	credit bool
}

const (
	screeningPending       = "PENDING"
	screeningSkipped       = "SKIPPED"
	screeningNotConfigured = "NOT_CONFIGURED"
)

// screen decides whether a final deposit is credited. It is pure. Where both
// thresholds are set somebody has to be asked first, and nobody is wired yet:
// the deposit waits, it does not pass.
func screen(t thresholds) screened {
	if t.severity == nil || t.usd == nil {
		return screened{status: screeningNotConfigured, credit: true}
	}
	return screened{status: screeningPending}
}

// What stands at a deposit that nobody has looked at: somebody will, or, as it
// is credited to nobody, will not.
var (
	pending = encoded(webhook.Screening{Status: screeningPending})
	skipped = encoded(webhook.Screening{Status: screeningSkipped})
)

func encoded(s webhook.Screening) json.RawMessage {
	body, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("deposit: a screening that cannot be encoded: %v", err))
	}
	return body
}
