package localworld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// signerFileName is the configuration of a signer that is a process of its own, in the folder of the service's.
const signerFileName = "signer.toml"

const foundingReason = "coffer local approvers: on a local network no one has to compare fingerprints"

// FoundApprovers founds every passkey that waits in a running world, as a person at the signer's host does, and returns
// the decisions. It may be repeated. The service enrols the passkeys within seconds.
func (i Info) FoundApprovers(ctx context.Context) (founded []app.ApproverOrder, err error) {
	conf, err := app.ReadConfig(i.Config)
	if err != nil {
		return nil, err
	}
	if conf.Network != chain.Local {
		return nil, fmt.Errorf("%s is of the network %s, where a person compares the fingerprint of each passkey: "+
			"use coffer signer approvers found. Nothing was founded", i.Config, conf.Network)
	}
	signerConf := conf
	if conf.Signer.Socket != "" {
		if signerConf, err = app.ReadSignerConfig(filepath.Join(filepath.Dir(i.Config), signerFileName)); err != nil {
			return nil, err
		}
	}
	tools, err := app.OpenTools(ctx, conf, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tools.Close()) }()
	var waiting []approver.Key
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		waiting, err = tools.Approvers.ListWaiting(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	orders, err := app.ApproverOrders(signerConf)
	if err != nil {
		return nil, err
	}
	for _, k := range waiting {
		fingerprint := k.Request().Fingerprint(tools.Approvers.Installation())
		n := slices.IndexFunc(orders, func(o app.ApproverOrder) bool {
			return o.OrgID == k.OrgID && o.Email == k.Email && o.Right == k.Right && o.Fingerprint == fingerprint
		})
		if n >= 0 {
			founded = append(founded, orders[n])
			continue
		}
		order, err := app.FoundApprover(signerConf, k.OrgID, k.Email, string(k.Right), fingerprint, foundingReason)
		if err != nil {
			return founded, err
		}
		founded = append(founded, order)
	}
	return founded, nil
}
