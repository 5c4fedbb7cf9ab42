package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/rescue"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer/local"
)

// rescueWalkSuffix is appended to the name of the rescue's journal, for the file with the progress and
// the outputs of a walk.
const rescueWalkSuffix = ".walk"

// PrepareRescue opens a rescue with the parts that the configuration names. It refuses if the signer's
// journal exists: less was lost then, and a restore is possible. closeSigner releases the journal of
// the rescue.
func PrepareRescue(
	ctx context.Context, conf Config, order rescue.Order,
) (_ *rescue.Rescue, closeSigner func() error, err error) {
	if !conf.hasRole(RoleSigner) {
		return nil, nil, errors.New(
			"signer." + conf.Signer.remoteSetting() +
				": this configuration points to another signer; use one with the seed and the policy",
		)
	}
	if _, err := os.Stat(conf.Signer.Journal); !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf(
			"the journal %s exists (%v): it has the payments that were made, so restore the database and import it; "+
				"this command is for the loss of both",
			conf.Signer.Journal, err,
		)
	}
	seed, signerConf, err := openSeed(conf)
	if err != nil {
		return nil, nil, err
	}
	signerConf.Journal += rescue.JournalSuffix
	signerConf.Rescue = true
	if _, err := os.Stat(signerConf.Journal); errors.Is(err, fs.ErrNotExist) {
		if err := local.CreateJournal(signerConf, seed); err != nil {
			return nil, nil, err
		}
	}
	sign, err := local.Open(signerConf, seed)
	if err != nil {
		return nil, nil, fmt.Errorf("the journal of the rescue: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, sign.Close())
		}
	}()
	tools := newApp(conf, slog.New(slog.DiscardHandler), func() error { return nil })
	if err := tools.openChains(ctx); err != nil {
		return nil, nil, err
	}
	c, ok := tools.parts.Chains[order.Chain]
	if !ok {
		return nil, nil, fmt.Errorf("chain %s is not configured", order.Chain)
	}
	catalogue, err := conf.mintCatalogue(tools.parts.Chains)
	if err != nil {
		return nil, nil, err
	}
	parts := rescue.Parts{
		Chain: c, Signer: sign, Seed: seed, Network: conf.Network,
		ReadFees:   func(payload []byte) (chain.Fees, error) { return service.ReadFees(order.Chain, payload) },
		CostMax:    conf.Chains[order.Chain].costMax(order.Chain),
		StartBlock: conf.Chains[order.Chain].StartHeight,
		WalkFile:   signerConf.Journal + rescueWalkSuffix,
	}
	for _, m := range catalogue {
		if m.Chain == order.Chain {
			parts.Mints = append(parts.Mints, m)
		}
	}
	r, err := rescue.Prepare(ctx, parts, order)
	return r, sign.Close, err
}
