package evmtoken

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
)

// The hash is the one that localchain/compile.js makes: every source by name,
// then the script itself, for its settings decide the bytecode as well.
func TestCompiledContractsBelongToTheSources(t *testing.T) {
	t.Parallel()
	const folder = "../../../localchain"
	sources, err := filepath.Glob(folder + "/contracts/*.sol")
	if err != nil || len(sources) == 0 {
		t.Fatalf("got %d sources, %v, want some", len(sources), err)
	}
	slices.Sort(sources)
	hash := sha256.New()
	for _, name := range append(sources, folder+"/compile.js") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(hash, "%s\x00%s\x00", filepath.Base(name), text)
	}
	if got, want := compiled().Sources, hex.EncodeToString(hash.Sum(nil)); got != want {
		t.Errorf("contracts.json was made from other sources (got %s, want %s): run `make generate`", got, want)
	}
}

func TestEveryContractCanBeCreatedAndCalled(t *testing.T) {
	t.Parallel()
	for _, c := range []Contract{Token, Tether, FeeToken, FalseToken, LyingToken, RebasingToken} {
		if len(c.CreationData("Some Token", "SOME", uint8(6))) == 0 ||
			len(c.CallData("mint", common.Address{1}, common.Big1)) == 0 {
			t.Errorf("%s: got no data, want some", c)
		}
	}
	for _, c := range []Contract{FiatToken, Batch, Refuser} {
		if len(c.CreationData()) == 0 {
			t.Errorf("%s: got no data, want some", c)
		}
	}
	if len(Alias.CreationData(common.Address{1})) == 0 {
		t.Error("Alias: got no data, want some")
	}
	if len(Proxy.CreationData(common.Address{1}, common.Address{2}, []byte{})) == 0 {
		t.Error("Proxy: got no data, want some")
	}
}

func TestTransferOfTetherReturnsNothing(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"transfer", "transferFrom", "approve"} {
		if got := len(Tether.ABI().Methods[method].Outputs); got != 0 {
			t.Errorf("%s: got %d outputs, want none", method, got)
		}
		if got := len(FiatToken.ABI().Methods[method].Outputs); got != 1 {
			t.Errorf("%s of FiatToken: got %d outputs, want one", method, got)
		}
	}
}
