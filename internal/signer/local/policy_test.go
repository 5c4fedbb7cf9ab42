package local_test

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/signer/local"
)

func TestTwoNamesForOneNetworkAreRefused(t *testing.T) {
	t.Parallel()
	of := func(id string) string {
		return `{"signerId": "` + id + `", "feeMax": "1", "gasMax": "1", "unlimited": true}`
	}
	if _, err := local.ParsePolicy([]byte(`{"chains": {"BASE": ` + of("1") + `, "ETHEREUM": ` + of("1") + `}}`)); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("got %v, want the second name refused", err)
	}
	if _, err := local.ParsePolicy([]byte(`{"chains": {"BASE": ` + of("8453") + `, "ETHEREUM": ` + of("1") + `}}`)); err != nil {
		t.Errorf("two networks: got %v, want no error", err)
	}
}
