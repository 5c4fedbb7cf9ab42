package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
)

func TestAFeeCapThatTheSignerWouldNotSignForIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "policy.json")
	// 0.244 of a coin: exactly 200 gwei for the most gas there is.
	text := `{"chains": {"ETHEREUM": {"signerId": "1", "feeMax": "244000000000000000", "gasMax": "1", "unlimited": true}}}`
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := func(feeCap string) Config {
		return Config{Signer: Signer{Policy: policy}, Chains: map[chain.Name]Chain{chain.Ethereum: {FeeCap: feeCap}}}
	}
	if err := conf("200000000000").feesFit(); err != nil {
		t.Errorf("at the limit: got %v, want no error", err)
	}
	err := conf("200000000001").feesFit()
	if err == nil || !strings.Contains(err.Error(), "chains.ETHEREUM.fee_cap") {
		t.Errorf("above the limit: got %v, want an error that names the setting", err)
	}
	if err := ServeSigner(t.Context(), conf("200000000001"), nil); err == nil || !strings.Contains(err.Error(), "fee_cap") {
		t.Errorf("a signer's own process: got %v, want the same", err)
	}
}
