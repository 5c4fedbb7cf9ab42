package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
)

// AuditRestart is what was done so that an audit log whose end was lost goes on.
type AuditRestart struct {
	End     audit.End     // where the chain of the database ends
	Relearn int           // anchors that the signer's file had lost and the database had
	Last    signer.Anchor // the last anchor before; its Number is 0 when there was none
	From    signer.Mark   // what both agree on
	Begun   bool          // the chain was let begin again behind From
}

// RestartAudit lets the anchors of the audit log go on after the database was restored
// from a backup that is older than the last of them, or after their file was lost. It
// opens the signer itself, which locks the journal: no service may run. With rehearse
// it says what it would do and does nothing.
func RestartAudit(ctx context.Context, conf Config, because string, rehearse bool) (r AuditRestart, err error) {
	if !conf.has(RoleSigner) {
		return r, errors.New("signer." + conf.Signer.way() + ": this configuration points to another signer; give one with the seed, the journal and the policy")
	}
	tools, err := OpenTools(ctx, conf, slog.New(slog.DiscardHandler))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, tools.Close()) }()
	seed, own, err := openSeed(conf)
	if err != nil {
		return r, err
	}
	sign, err := local.Open(own, seed)
	if err != nil {
		return r, fmt.Errorf("signer.journal: %w", err)
	}
	defer func() { err = errors.Join(err, sign.Close()) }()

	var all []signer.Anchor
	for {
		some, err := sign.Anchors(ctx, uint64(len(all)), 0)
		if err != nil {
			return r, err
		}
		if len(some) == 0 {
			break
		}
		all = append(all, some...)
	}
	var lost []signer.Anchor
	var agrees error
	err = tools.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		copied, err := audit.Copied(ctx, tx)
		if err != nil {
			return err
		}
		if lost = nil; len(copied) > len(all) {
			lost = copied[len(all):]
		}
		known := append(append([]signer.Anchor{}, all...), lost...)
		if len(known) > 0 {
			r.Last = known[len(known)-1]
		}
		if r.End, err = audit.EndOf(ctx, tx); err != nil {
			return err
		}
		if r.From, err = audit.Agreed(ctx, tx, known); err != nil {
			return err
		}
		agrees = nil
		if r.Last.Number > 0 && r.Last.Mark != r.From {
			agrees = audit.ErrContradicted
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	r.Relearn, r.Begun = len(lost), agrees != nil
	if rehearse {
		return r, nil
	}
	if _, err := sign.Relearn(lost); err != nil {
		return r, err
	}
	if r.Begun {
		if _, err := sign.Reanchor(r.From, because); err != nil {
			return r, err
		}
	}
	return r, nil
}
