package race

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/service"
)

// resolutionVerbs are the possible results of a flagged deposit.
var resolutionVerbs = []string{"approved", "rejected", "redirected"}

// resolveAllFlagged lets every worker decide about every deposit, in the same order, each with its
// own decision. A worker that repeats the standing decision gets the answer of the first.
func resolveAllFlagged(ctx context.Context, t task) (result, error) {
	db, err := pg.Open(ctx, pg.Config{URL: t.URL, MaxConns: workers}, time.Now)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	ch := sim.New(sim.Config{}).ToChain()
	flags := service.New(service.Config{}, service.Parts{
		DB: db, Chains: chain.Chains{ch.Name: ch}, AttestKey: t.Attest, Log: slog.New(slog.DiscardHandler),
	}).Deposits
	p := &process{task: t, db: db, decided: map[string]string{}}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for round, id := range t.Flagged {
				p.resolveOnce(ctx, flags, w, round, id)
			}
		})
	}
	wg.Wait()
	return result{
		Decisions: p.decisions.Load(), DecisionsLate: p.decisionsLate.Load(), Vain: p.vain.Load(),
		Deadlocks: db.Counts().Deadlocks,
		Accepted:  map[string]string{}, Resolved: p.decided, Wrong: p.wrong,
	}, nil
}

func (p *process) resolveOnce(ctx context.Context, flags *deposit.Service, worker, round int, id string) {
	verb := resolutionVerbs[(worker+round+p.Process)%len(resolutionVerbs)]
	decider := deposit.Actor{Actor: audit.Operator(fmt.Sprintf("op_%d", worker))}
	if worker%2 == 0 && verb != "redirected" {
		decider = deposit.Actor{Actor: audit.User(fmt.Sprintf("usr_%d", worker)), OrgID: p.Org}
	}
	var err error
	switch verb {
	case "approved":
		_, err = flags.Approve(ctx, id, decider, "")
	case "rejected":
		_, err = flags.Reject(ctx, id, decider, "")
	default:
		_, err = flags.Redirect(ctx, id, decider, deposit.Redirection{
			ToAddress: string(sim.Address("court")), Reason: deposit.LawEnforcement, Reference: "case 1",
		})
	}
	switch {
	case err == nil:
		p.decisions.Add(1)
		p.mu.Lock()
		if earlier, ok := p.decided[id]; ok && earlier != verb {
			p.wrong = append(p.wrong, fmt.Sprintf("%s was %s and then %s", id, earlier, verb))
		}
		p.decided[id] = verb
		p.mu.Unlock()
	case fault.HasCode(err, fault.DepositNotFlagged), fault.HasCode(err, fault.ResolutionInProgress):
		p.decisionsLate.Add(1)
	default:
		if isLockTimeout(err) {
			p.vain.Add(1) // nothing was decided here
			return
		}
		p.addComplaint("%s is %s: %v", id, verb, err)
	}
}
