package keys

import (
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/tyler-smith/go-bip39"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/signer"
)

// Wallets of TRON have these addresses at m/44'/195'/0'/0/n, for the words that test vectors of the
// standards use.
func TestKeysOfTRONAreThoseThatWalletsHave(t *testing.T) {
	t.Parallel()
	for n, want := range []chain.Address{
		"TUEZSdKsoDHQMeZwihtdoBiN46zxhGWYdH", "TSeJkUh4Qv67VNFwY8LaAxERygNdy6NQZK",
		"TYJPRrdB5APNeRs4R7fYZSwW3TcrTKw2gx",
	} {
		key, code := splitKey(hmacSHA512([]byte("Bitcoin seed"),
			bip39.NewSeed(strings.Repeat("abandon ", 11)+"about", "")))
		for _, i := range []uint32{44, 195, 0} {
			var err error
			if key, code, err = childSecp(key, code, i); err != nil {
				t.Fatal(err)
			}
		}
		key, code = openChild(key, code, 0)
		key, _ = openChild(key, code, byte(n))
		got := trontx.KeyAddress([65]byte(secp256k1.PrivKeyFromBytes(key[:]).PubKey().SerializeUncompressed()))
		if got != want {
			t.Errorf("m/44'/195'/0'/0/%d: got %s, want %s", n, got, want)
		}
	}
}

// A change of any of these addresses loses the money of every installation.
func TestTRONWalletsStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	s := knownSeed(t)
	for _, v := range []struct {
		ref           signer.WalletRef
		path, address string
	}{
		// The key paths are those of the EVM wallets of the same words.
		{
			signer.WalletRef{OrgID: "org_1", Family: chain.TronFamily, Purpose: "TREASURY"},
			"m/44'/195'/1646969524'/390021371'/1492476191'/94700355'", "THB2GrwXiYS6BG5ZPTeTeqTNDxrSf523Yf",
		},
		{
			signer.WalletRef{OrgID: "org_1", Family: chain.TronFamily, Purpose: "CUSTOMER_DEPOSIT", Subject: "alice"},
			"m/44'/195'/1745023765'/543518224'/1377603941'/211528283'", "TKvjmSGSWFncoZSW7keqiLPg9kqxCTsTnJ",
		},
	} {
		for _, n := range []chain.Network{"", chain.Mainnet, chain.Testnet, chain.Local} {
			k, err := s.ForNetwork(n).DeriveWallet(v.ref)
			if err != nil {
				t.Fatal(err)
			}
			if k.Path() != v.path || string(k.Address()) != v.address {
				t.Errorf("%v on %q: got %v at %v, want %v at %v", v.ref, n, k.Address(), k.Path(), v.address, v.path)
			}
			if a, err := trontx.Parse(string(k.Address())); err != nil || a != k.Address() {
				t.Errorf("Parse(%s): got %q, %v, want a wallet", k.Address(), a, err)
			}
		}
	}
}
