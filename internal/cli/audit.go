package cli

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

type auditCmd struct {
	Status  auditStatus  `cmd:"" help:"Show the state of the audit log: its chain, its unsealed rows, the last anchor of the signer."`
	Export  auditExport  `cmd:"" help:"Export the audit log, one line of JSON per row, to a file or to the standard output."`
	Verify  auditVerify  `cmd:"" help:"Check an export, without a database: it is intact, or where it is broken."`
	Restart auditRestart `cmd:"" help:"After a restore: continue the chain from the last row on which the restored log and the signer's anchors agree."`
}

type auditStatus struct{ configFlags }

func (c auditStatus) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	return tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		s, err := audit.LoadState(ctx, tx)
		if err != nil {
			return err
		}
		fmt.Fprintf(std.out, "chain     %s\nends      row %d, %s\n", s.End.Chain, s.End.Position, s.End.Hash)
		if s.OldestUnsealedAt == nil {
			fmt.Fprintln(std.out, "unsealed  none")
		} else {
			fmt.Fprintf(std.out, "unsealed  since %s\n", s.OldestUnsealedAt.UTC().Format(time.RFC3339))
		}
		if s.LastAnchor.Number == 0 {
			fmt.Fprintln(std.out, "anchored  never")
			return nil
		}
		fmt.Fprintf(std.out, "anchored  row %d, at %s\n", s.LastAnchor.Position, s.LastAnchor.SignedAt)
		return audit.CompareAnchor(ctx, tx)
	})
}

type auditExport struct {
	configFlags
	File string `arg:"" optional:"" type:"path" help:"A file that does not exist yet; the standard output if left out."`
}

func (c auditExport) Run(ctx context.Context, std streams) (err error) {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	output := std.out
	if c.File != "" {
		f, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("export the audit log: %w", err)
		}
		defer func() { err = errors.Join(err, f.Sync(), f.Close()) }()
		output = f
	}
	h, err := audit.Export(ctx, tools.DB(), output)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.err, "%d rows of %s, as of %s\n", h.Position, h.Chain, h.ExportedAt)
	return nil
}

type auditVerify struct {
	File    string `arg:"" type:"existingfile" help:"An export that coffer audit export wrote."`
	Anchors string `type:"existingfile" help:"The signer's anchors: the file next to its journal, with .anchors after its name. Without it, the check cannot see that rows are missing at the end."`
	Key     string `type:"existingfile" help:"The public attestation key (keys.attest): it shows whether the anchors are the signer's, and whether the passkeys of signed approvals are."`
}

func (c auditVerify) Run(std streams) error {
	if c.Anchors != "" && c.Key == "" {
		return errors.New("give --key with --anchors: the key shows whether the anchors are the signer's")
	}
	var anchors []signer.Anchor
	var key ed25519.PublicKey
	if c.Key != "" {
		var err error
		if key, err = keys.ReadAttestKey(c.Key); err != nil {
			return fmt.Errorf("--key: %w", err)
		}
	}
	if c.Anchors != "" {
		var err error
		if anchors, err = readAnchors(c.Anchors, key); err != nil {
			return err
		}
	}
	f, err := os.Open(c.File)
	if err != nil {
		return fmt.Errorf("read the export: %w", err)
	}
	defer f.Close()
	found, err := audit.CheckExport(f, anchors, c.Anchors != "", key)
	if err != nil {
		return err
	}
	if _, err := found.WriteTo(std.out); err != nil {
		return err
	}
	if !found.IsIntact() {
		return errors.New(
			"the audit log is not intact: keep the export and the anchors as they are, and find out who could write " +
				"to the database",
		)
	}
	return nil
}

func readAnchors(file string, key ed25519.PublicKey) ([]signer.Anchor, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the anchors: %w", err)
	}
	defer f.Close()
	return audit.ReadAnchors(io.Reader(f), key)
}

type auditRestart struct {
	configFlags
	Because string `required:"" help:"The reason, for the readers of the anchors: which backup was restored, and when."`
	Yes     bool   `help:"Write the change. Without it, the command only shows the change."`
}

func (c auditRestart) Run(ctx context.Context, std streams) error {
	conf, err := c.readConfig()
	if err != nil {
		return err
	}
	r, err := app.RestartAudit(ctx, conf, c.Because, !c.Yes)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "The audit log %s ends with row %d.\n", r.End.Chain, r.End.Position)
	if r.RestoredAnchors > 0 {
		fmt.Fprintf(std.out, "The signer's file has lost %d anchors, which the database has.\n", r.RestoredAnchors)
	}
	switch {
	case r.Last.Number == 0:
		fmt.Fprintln(std.out, "The signer has signed no row of it.")
	case !r.Restarted:
		fmt.Fprintf(std.out, "The last anchor, of row %d, at %s, agrees with it.\n", r.Last.Position, r.Last.SignedAt)
	default:
		fmt.Fprintf(
			std.out,
			"It had %d rows when the signer last signed it, at %s. Both agree up to row %d: the rows after it are "+
				"lost, and this log does not have them.\n",
			r.Last.Position, r.Last.SignedAt, r.AgreedMark.Position,
		)
	}
	if r.RestoredAnchors == 0 && !r.Restarted {
		fmt.Fprintln(std.out, "There is nothing to do.")
		return nil
	}
	if !c.Yes {
		return errors.New("nothing was done; if you restored this log, repeat the command with --yes to continue it")
	}
	fmt.Fprintln(
		std.out, "The log continues from there. The anchors of the lost rows stay in the signer's file, with the "+
			"reason.",
	)
	return nil
}
