package service

import (
	"cmp"
	"context"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/platform/jobs"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
)

const (
	mirrorInterval = 30 * time.Second // between two comparisons with the signer's journal
	// How often every address is verified. A used address is verified on use, so this is for those
	// that wait for a payment.
	verifyAddressesInterval = 24 * time.Hour
	// How often old data is deleted from the feed and the log of webhooks.
	pruneInterval = time.Hour
	// How often changes of settings are looked for whose delay is over.
	applyChangesInterval = time.Minute
)

// Loop is a part that works until its context ends.
type Loop struct {
	Name  string
	Chain chain.Name // "" for a loop that serves all chains
	Run   func(ctx context.Context) error
}

// String returns the name, and the chain after a space.
func (l Loop) String() string {
	if l.Chain == "" {
		return l.Name
	}
	return l.Name + " " + string(l.Chain)
}

// ScanLoops returns the loops that read the chains.
func (s *Service) ScanLoops() (loops []Loop) {
	for name, walker := range s.walkers {
		loops = append(loops, Loop{"scan", name, walker.Run})
	}
	return append(loops, Loop{"addresses", "", s.Matcher.Run})
}

// DispatchLoops returns the loops that make the payments.
func (s *Service) DispatchLoops() (loops []Loop) {
	for name, worker := range s.dispatchWorkers {
		loops = append(loops, Loop{"dispatch", name, worker.Run})
	}
	return loops
}

// WorkerLoops returns all other loops that move money or keep the books. They need WebhookKeys.
func (s *Service) WorkerLoops() []Loop {
	parts := s.parts
	loops := []Loop{
		{"deposit", "", s.Deposits.Run},
		{"arrivals", "", s.Deposits.RunArrivals},
		{"memos", "", s.Deposits.RunMemos},
		{"resolutions", "", s.Deposits.RunOverdue},
		{"whitelist", "", s.Whitelist.RunMaintenance},
		{"approvers", "", s.Approvers.RunMaintenance},
		{"voids", "", s.Voider.Run},
		{"restored", "", func(ctx context.Context) error { return s.Withdrawals.RunCollectOwed(ctx, parts.Log) }},
		{"swaps", "", s.Swaps.Run},
		{"deposit swaps", "", s.DepositSwaps.Run},
		{"checkouts", "", s.Checkouts.Run},
		{"payouts", "", s.Payouts.Run},
		{"restored swaps", "", func(ctx context.Context) error { return s.Swaps.RunCollectOwed(ctx, parts.Log) }},
		{"fees", "", (&fee.Pricer{DB: parts.DB, Prices: parts.Prices, PriceAge: s.Swaps.PriceAge, Log: parts.Log}).Run},
		{"billing", "", s.Billing.Run},
		{"sequencer", "", s.Sequencer.Run},
		{"delivery", "", s.Dispatcher.Run},
		{"jobs", "", s.newJobs().Run},
		{"audit", "", (&audit.Sealer{DB: parts.DB, Log: parts.Log}).Run},
		{"anchors", "", (&audit.Anchorer{
			DB: parts.DB, Signer: parts.Signer, Key: parts.AttestKey, Interval: s.conf.AnchorInterval, Log: parts.Log,
		}).Run},
		{"totals", "", (&ledger.Folder{DB: parts.DB, Log: parts.Log}).Run},
	}
	for name, sweeper := range s.sweepers {
		loops = append(loops, Loop{"sweep", name, sweeper.Run})
	}
	if !s.conf.NoRescreening {
		loops = append(loops, Loop{"rescreening", "", s.NewRescreener().Run})
	}
	if s.MailSender != nil {
		loops = append(loops, Loop{"mail", "", s.MailSender.Run})
	}
	return loops
}

// JournalLoop returns the loop that compares the database with the signer's journal. Every process
// runs it, because each would go on with a database that was replaced.
func (s *Service) JournalLoop() Loop {
	return Loop{"journal", "", func(ctx context.Context) error {
		journal.Watch(ctx, s.parts.DB, s.parts.Signer, s.Wallets, mirrorInterval)
		return nil
	}}
}

// verifyBooksJob runs the verifier.
type verifyBooksJob struct{}

// Kind returns the job's permanent name.
func (verifyBooksJob) Kind() string { return "verify" }

// verifyAddressesJob verifies every address.
type verifyAddressesJob struct{}

// Kind returns the job's permanent name.
func (verifyAddressesJob) Kind() string { return "verify_addresses" }

// expireChangesJob ends change requests that were not approved in time.
type expireChangesJob struct{}

// Kind returns the job's permanent name.
func (expireChangesJob) Kind() string { return "end_change_requests" }

// applyMemberChangesJob lets changes of settings take effect whose delay is over.
type applyMemberChangesJob struct{}

// Kind returns the job's permanent name.
func (applyMemberChangesJob) Kind() string { return "apply_member_changes" }

// pruneAnswersJob deletes answers of risk providers to which nothing refers.
type pruneAnswersJob struct{}

// Kind returns the job's permanent name.
func (pruneAnswersJob) Kind() string { return "retire_risk_answers" }

// pruneWebhooksJob deletes old data from the feed and the log of webhooks.
type pruneWebhooksJob struct{}

// Kind returns the job's permanent name.
func (pruneWebhooksJob) Kind() string { return "retire_webhooks" }

// pruneMailsJob deletes the rows of mails that ended long ago.
type pruneMailsJob struct{}

// Kind returns the job's permanent name.
func (pruneMailsJob) Kind() string { return "retire_mails" }

// newJobs builds the runner of the periodic jobs.
func (s *Service) newJobs() *jobs.Runner {
	parts := s.parts
	runner := jobs.New(parts.DB, parts.Log)
	jobs.HandlePeriodic(runner, s.conf.VerifyInterval, verifyBooksJob{}, func(ctx context.Context) error {
		_, err := verify.CheckAndFreeze(ctx, parts.DB, s.Chains, parts.Log, verify.WithGrants(parts.Grants),
			verify.WithApprovers(parts.AttestKey))
		return err
	})
	jobs.HandlePeriodic(runner, verifyAddressesInterval, verifyAddressesJob{}, func(ctx context.Context) error {
		_, err := verify.CheckAddressesAndFreeze(ctx, parts.DB, s.Wallets, parts.Log)
		return err
	})
	jobs.HandlePeriodic(runner, pruneInterval, expireChangesJob{}, func(ctx context.Context) error {
		return changerequest.Expire(ctx, parts.DB)
	})
	jobs.HandlePeriodic(runner, applyChangesInterval, applyMemberChangesJob{}, s.Changes.ApplyDue)
	jobs.HandlePeriodic(runner, pruneInterval, pruneAnswersJob{}, func(ctx context.Context) error {
		return risk.PruneAnswers(ctx, parts.DB, cmp.Or(s.conf.RiskAnswersKept, risk.RetentionDefault))
	})
	jobs.HandlePeriodic(runner, pruneInterval, pruneWebhooksJob{}, func(ctx context.Context) error {
		return delivery.Prune(ctx, parts.DB, parts.Log)
	})
	if s.MailSender != nil {
		jobs.HandlePeriodic(runner, pruneInterval, pruneMailsJob{}, func(ctx context.Context) error {
			return mail.Prune(ctx, parts.DB)
		})
	}
	return runner
}
