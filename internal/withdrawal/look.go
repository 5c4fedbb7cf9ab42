package withdrawal

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/groupcommit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Requests that come at the same moment look up together what each of them needs before its group decides. A look
// begins after its request came, so it is no older than one of its own.

// requestLook is the look-up of a request's key, of the freezes that concern it and of the catalogue.
type requestLook struct {
	key        *string
	customerID string // "" for none

	mints    *mint.Catalogue
	freezes  *freeze.ActiveSet
	accepted *request.Accepted // the withdrawal that has the key, or nil
}

// payeeLook is the look-up of what no transaction of the organization sees: whose the destination is, and who pays.
type payeeLook struct {
	payee    payee
	isPaying bool // its request may be written

	isOurs       bool
	settings     func() (org.Settings, error)
	payerAddress chain.Address
	treasury     wallet.Wallet // without an id before the organization's first payment
}

type (
	requestLooks = groupcommit.Writer[*requestLook, struct{}]
	payeeLooks   = groupcommit.Writer[*payeeLook, struct{}]
)

// lookAtRequest looks up together with the requests that come at the same moment. Without Groups each looks by itself.
func (s *Service) lookAtRequest(ctx context.Context, orgID string, l *requestLook) error {
	if s.Groups == nil {
		return s.lookUpRequests(ctx, orgID, []*requestLook{l})
	}
	return awaitLook(ctx, lookWriterOf(s.Groups, s.Groups.requests, orgID, s.lookUpRequests), l)
}

// lookAtPayee does the same for a destination.
func (s *Service) lookAtPayee(ctx context.Context, orgID string, l *payeeLook) error {
	if s.Groups == nil {
		return s.lookUpPayees(ctx, orgID, []*payeeLook{l})
	}
	return awaitLook(ctx, lookWriterOf(s.Groups, s.Groups.payees, orgID, s.lookUpPayees), l)
}

func awaitLook[Q any](ctx context.Context, w *groupcommit.Writer[Q, struct{}], look Q) error {
	_, err := w.SubmitAndWait(ctx, look)
	if errors.Is(err, groupcommit.ErrFull) || errors.Is(err, groupcommit.ErrAbandoned) {
		return newCrowded()
	}
	return err
}

// lookWriterOf returns the writer of an organization among those of one kind of look.
func lookWriterOf[Q any](
	g *Groups, writers map[string]*groupcommit.Writer[Q, struct{}], orgID string,
	lookUp func(ctx context.Context, orgID string, looks []Q) error,
) *groupcommit.Writer[Q, struct{}] {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := writers[orgID]
	if w == nil {
		w = &groupcommit.Writer[Q, struct{}]{
			GroupMax: groupMax, SecondGroupMin: parallelMin, WaitingMax: waitingMax, WorkMax: groupTimeout,
			ProcessGroup: func(ctx context.Context, looks []Q) []groupcommit.Answer[struct{}] {
				err := lookUp(ctx, orgID, looks)
				answers := make([]groupcommit.Answer[struct{}], len(looks))
				for i := range answers {
					answers[i].Err = err
				}
				return answers
			},
		}
		writers[orgID] = w
	}
	return w
}

func (s *Service) lookUpRequests(ctx context.Context, orgID string, looks []*requestLook) error {
	customers, hashes := []string{}, make([]string, 0, len(looks))
	for _, l := range looks {
		customers = append(customers, l.customerID)
		if l.key != nil {
			hashes = append(hashes, keyHash(l.key))
		}
	}
	var mints *mint.Catalogue
	var freezes *freeze.ActiveSet
	var accepted map[string]*request.Accepted
	err := s.DB.ReadOrgBatch(ctx, orgID, func(b *pgx.Batch) {
		mints, freezes = mint.QueueAll(b), freeze.QueueLook(b, orgID, customers)
		accepted = queueKeys(b, orgID, hashes)
	})
	if err != nil {
		return err
	}
	for _, l := range looks {
		l.mints, l.freezes = mints, freezes
		if l.key != nil {
			l.accepted = accepted[keyHash(l.key)]
		}
	}
	return nil
}

// lookUpPayees reads as the system: a tenant sees its own wallets only.
func (s *Service) lookUpPayees(ctx context.Context, orgID string, looks []*payeeLook) error {
	addresses, payers := map[chain.Family][]chain.Address{}, map[chain.Name]*chain.Address{}
	isPaying := map[chain.Name]bool{}
	for _, l := range looks {
		family := l.payee.chain.Family()
		addresses[family] = append(addresses[family], l.payee.address)
		payers[l.payee.chain] = new(chain.Address)
		isPaying[l.payee.chain] = isPaying[l.payee.chain] || l.isPaying
	}
	owned := map[chain.Family]map[chain.Address]bool{}
	var settings func() (org.Settings, error)
	err := s.DB.ReadSystemBatch(ctx, func(b *pgx.Batch) {
		pg.QueueKeyPlans(b)
		for family, list := range addresses {
			owned[family] = wallet.QueueOwned(b, family, list...)
		}
		settings = org.QueueSettings(b, orgID)
		for name, address := range payers {
			queuePayerAddress(b, orgID, name, address)
		}
	})
	if err != nil {
		return fmt.Errorf("look up the owners of %d addresses: %w", len(looks), err)
	}
	treasuries := map[chain.Name]wallet.Wallet{}
	for name, address := range payers {
		if *address == "" || !isPaying[name] {
			continue
		}
		// A treasury that cannot be loaded now is loaded by the request that needs it.
		if treasury, err := s.loadTreasury(ctx, orgID, name); err == nil {
			treasuries[name] = treasury
		}
	}
	for _, l := range looks {
		l.isOurs, l.settings = owned[l.payee.chain.Family()][l.payee.address], settings
		l.payerAddress, l.treasury = *payers[l.payee.chain], treasuries[l.payee.chain]
	}
	return nil
}
