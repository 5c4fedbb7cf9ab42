package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
)

// AuditRestart reports how an audit log whose end was lost continues.
type AuditRestart struct {
	End             audit.End        // the end of the chain in the database
	RestoredAnchors int              // anchors that the signer's file had lost and the database had
	Last            signer.Anchor    // the last anchor before; its Number is 0 if there was none
	AgreedMark      signer.AuditHead // the last mark on which both agree
	Restarted       bool             // the chain was allowed to restart behind AgreedMark
}

// RestartAudit lets the anchors of the audit log continue after the database was restored from a
// backup that is older than the last anchor, or after their file was lost. It opens the signer
// itself, which locks the journal: no service may run. With rehearse it reports what it would do
// and does nothing.
func RestartAudit(ctx context.Context, conf Config, reason string, rehearse bool) (r AuditRestart, err error) {
	if !conf.hasRole(RoleSigner) {
		return r, errors.New(
			"signer." + conf.Signer.remoteSetting() +
				": this configuration points to another signer; use one with the seed, the journal and the policy",
		)
	}
	tools, err := OpenTools(ctx, conf, slog.New(slog.DiscardHandler))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, tools.Close()) }()
	seed, signerConf, err := openSeed(conf)
	if err != nil {
		return r, err
	}
	sign, err := local.Open(signerConf, seed)
	if err != nil {
		return r, fmt.Errorf("signer.journal: %w", err)
	}
	defer func() { err = errors.Join(err, sign.Close()) }()

	var anchors []signer.Anchor
	for {
		batch, err := sign.AnchorsAfter(ctx, uint64(len(anchors)), 0)
		if err != nil {
			return r, err
		}
		if len(batch) == 0 {
			break
		}
		anchors = append(anchors, batch...)
	}
	var lost []signer.Anchor
	var agrees error
	err = tools.parts.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		copied, err := audit.CopiedAnchors(ctx, tx)
		if err != nil {
			return err
		}
		if lost = nil; len(copied) > len(anchors) {
			lost = copied[len(anchors):]
		}
		combined := append(append([]signer.Anchor{}, anchors...), lost...)
		if len(combined) > 0 {
			r.Last = combined[len(combined)-1]
		}
		if r.End, err = audit.LoadEnd(ctx, tx); err != nil {
			return err
		}
		if r.AgreedMark, err = audit.LastAgreedMark(ctx, tx, combined); err != nil {
			return err
		}
		agrees = nil
		if r.Last.Number > 0 && r.Last.AuditHead != r.AgreedMark {
			agrees = audit.ErrContradicted
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	r.RestoredAnchors, r.Restarted = len(lost), agrees != nil
	if rehearse {
		return r, nil
	}
	if _, err := sign.RestoreAnchors(lost); err != nil {
		return r, err
	}
	if r.Restarted {
		if _, err := sign.RestartAnchors(r.AgreedMark, reason); err != nil {
			return r, err
		}
	}
	return r, nil
}
