package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/jobs"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/testing/trial/pagematrix"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// fullList is more than one page of a list has.
const fullList = 52

// fill makes at least n things of each kind and returns the pages with a thing for each.
func (h *testEnv) fill(n int) pagematrix.House {
	h.t.Helper()
	ann := h.signInAs(h.ann)
	changeID := h.requestChange(ann)
	var depositID string
	for range n {
		depositID = h.flag()
	}
	redirected := h.flag()
	h.post(ann, Prefix+"/flagged/"+redirected+"/redirect", "toAddress", elsewhere, "reason", "LAW_ENFORCEMENT",
		"reference", "case 77", "note", hostile, "code", rightCode).want(h.t, http.StatusSeeOther)
	change := h.post(ann, Prefix+"/organizations/"+h.orgID+"/addresses/add", "chain", "ETHEREUM", "address", elsewhere,
		"label", "Bank <b>").location(h.t)
	h.post(h.signInAs(h.bob), change+"/approve").want(h.t, http.StatusSeeOther)
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		for range n {
			if err := jobs.Insert(ctx, tx, chore{hostile}); err != nil {
				return err
			}
		}
		return nil
	})
	for i := 0; i < n && err == nil; i++ {
		_, _, err = org.Create(h.t.Context(), h.db, fmt.Sprintf("Company %d %s", i, hostile))
	}
	if err != nil {
		h.t.Fatal(err)
	}
	withdrawalID := h.withdraw(n)
	swapID, strayID := h.fillSwaps(n)
	ownSwapID := h.fillOwnSwaps(n, withdrawalID)
	var depositSwapID string
	for i := range n {
		depositSwapID = h.addDepositSwap(fmt.Sprint("top-up-", i)).ID
	}
	invoice, creditNote := h.fillBilling(n)
	freezeID := h.freezeOrg()
	var orderID, treasuryID, addressID string
	for query, value := range map[string]*string{
		`SELECT max(order_id) FROM dispatch_orders`:                     &orderID,
		`SELECT max(wallet_id) FROM wallets WHERE purpose = 'TREASURY'`: &treasuryID,
		`SELECT max(whitelisted_address_id) FROM whitelisted_addresses`:  &addressID,
	} {
		if err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), query).Scan(value); err != nil {
			h.t.Fatal(err)
		}
	}
	_, invitation, err := signin.InviteOperatorFromTerminal(h.t.Context(), h.db, audit.System("test"),
		"dan@example.test", "Dan Operator", []operator.Role{operator.RoleOperator})
	if err != nil {
		h.t.Fatal(err)
	}
	house := pagematrix.House{
		Name: "console", Surface: surface(h), Base: strings.Replace(h.server.URL, "127.0.0.1", "localhost", 1),
		OwnToken: h.enter("carl@example.test", "Carl Operator"),
		OldToken: h.open(session.Session{Operator: h.ann}),
		Values: map[string]string{
			"organizationId": h.orgID, "setting": "approvalQuorum", "depositId": depositID, "freezeId": freezeID,
			"changeRequestId": changeID, "withdrawalId": withdrawalID, "orderId": orderID, "walletId": treasuryID,
			"swapId": swapID, "provider": "ONE_CLICK", "depositSwapId": depositSwapID,
			"invoiceId": invoice.ID, "creditNoteId": creditNote.ID,
			"approverKeyId": h.addPasskey(h.bob, signer.RightApprove).ID, "whitelistedAddressId": addressID,
		},
		OwnValues: map[string]map[string]string{"/swap-arrivals/{depositId}": {"depositId": strayID}},
		Queries: map[string]string{
			"/gas/{walletId}": "mintId=2", "/invitation": "token=" + invitation.Reveal(),
		},
		CountReports: h.reports.Load,
		States: []pagematrix.State{
			{Name: "deposit-redirected", Path: "/flagged/" + redirected, Token: ann},
			{
				Name: "organization-not-found", Path: "/organizations/org_01J9ZW3M8Q4S5T6V7W8X9YZABC", Token: ann,
				IsMissing: true,
			},
			{Name: "swaps-claims", Path: "/swaps?openClaims=true", Token: ann},
			{Name: "swaps-own", Path: "/swaps?kind=ORGANIZATION", Token: ann},
			{Name: "swap-own", Path: "/swaps/" + ownSwapID, Token: ann},
			{Name: "deposit-swaps-none", Path: "/deposit-swaps?provider=NONE", Token: ann},
			{Name: "swaps-none", Path: "/swaps?provider=NONE", Token: ann},
			{Name: "swaps-auditor", Path: "/swaps/" + swapID, Token: h.signInAs(h.eve)},
			{Name: "billing-month-none", Path: "/billing?month=2020-01", Token: ann},
			{Name: "billing-auditor", Path: "/billing", Token: h.signInAs(h.eve)},
			{Name: "billing-invoice-verified", Path: "/billing/invoices/" + invoice.ID + "?verify=true", Token: ann},
			{Name: "billing-invoices-none", Path: "/billing/invoices?status=PAID", Token: ann},
			{Name: "deposit-auditor", Path: "/flagged/" + depositID, Token: h.signInAs(h.eve)},
		},
	}
	for _, p := range []operator.Person{h.ann, h.eve} {
		house.People = append(house.People, pagematrix.Person{
			Role: pages.RoleName(p.Roles[0]), Token: h.signInAs(p), Allows: p.IsAllowed,
		})
	}
	return house
}

// withdraw makes withdrawals of a customer that wait for approval, and returns the last one.
func (h *testEnv) withdraw(n int) (withdrawalID string) {
	h.t.Helper()
	const customerID, funded = "carol <b>", 1_000_000_000
	counter := &deposit.AddressService{
		DB: h.db, Chains: h.deposits.Chains, Wallets: h.book, Actor: audit.APIKey(h.orgID),
	}
	_, err := counter.IssueForCustomer(h.t.Context(), h.orgID, usdc, customerID, "")
	var treasury wallet.Wallet
	if err == nil {
		treasury, err = h.book.Treasury(h.t.Context(), h.orgID, chain.EVM)
	}
	if err == nil {
		err = h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
			if err := wallet.MoveFunds(ctx, tx, wallet.Movement{
				WalletID: treasury.ID, OrgID: h.orgID, MintID: usdc, Part: wallet.Credited, Plus: money.Units(funded),
			}); err != nil {
				return err
			}
			return ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.Deposit, ID: "dep_of_carol"},
				Legs: []ledger.Leg{{
					Debit:  ledger.Account{OrgID: h.orgID, MintID: usdc, Kind: ledger.Custody},
					Credit: ledger.Account{OrgID: h.orgID, MintID: usdc, Kind: ledger.Customer, Subject: customerID},
					Amount: money.Units(funded),
				}},
			})
		})
	}
	service := &withdrawal.Service{
		DB: h.db, Events: wire.NewRecorder(), Chains: h.deposits.Chains, Wallets: h.book,
		Prices: price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}},
	}
	for i := 0; i < n && err == nil; i++ {
		var made withdrawal.Withdrawal
		made, _, err = service.Request(h.t.Context(), h.orgID, withdrawal.Request{
			MintID: usdc, CustomerID: customerID, Amount: "1000000", ToAddress: elsewhere, RequireApproval: true,
			Actor: audit.APIKey(h.orgID), Limit: func() error { return nil },
		})
		withdrawalID = made.ID
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return withdrawalID
}

// enter has a new operator accept an invitation and set an authenticator app up, and returns the session's
// token.
func (h *testEnv) enter(email, name string) string {
	h.t.Helper()
	ctx := h.t.Context()
	secret := h.joinOperator(email, name)
	begun, err := h.signIn.StartWithPassword(ctx, signin.Client{}, email, seal.NewSecret(goodPassword))
	if err != nil {
		h.t.Fatal(err)
	}
	done, err := h.signIn.ConfirmFactor(ctx, signin.Client{}, begun.Session,
		signin.Proof{Code: seal.NewSecret(h.code(secret))})
	if err != nil {
		h.t.Fatal(err)
	}
	return done.Token.Reveal()
}

// Each page of the table opens for its roles alone and has its table where its line says so, an unknown id is
// 404, and the first visit of a page with full lists is small. Rules PAGE-41 and PAGE-61.
func TestEachPageHasItsTableAndIsSmall(t *testing.T) {
	t.Parallel()
	pagematrix.Check(t, newTestEnv(t).fill(fullList))
}
