package forks

import (
	"crypto/ecdsa"
	"flag"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

var (
	seedFlag   = flag.Uint64("forks.seed", 0, "seed of the random forks; 0: another one each time")
	roundsFlag = flag.Int("forks.rounds", 15, "rounds of random forks")
)

func pgOwner(w *forkEnv) *pgxpool.Pool { return pgtest.OwnerPool(w, w.db) }

func newInt(n uint64) *big.Int { return new(big.Int).SetUint64(n) }

// payerOf returns the key of an external account, or nil.
func (w *forkEnv) payerOf(a common.Address) *ecdsa.PrivateKey {
	for _, k := range w.payers {
		if crypto.PubkeyToAddress(k.PublicKey) == a {
			return k
		}
	}
	return nil
}
