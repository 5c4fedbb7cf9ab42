package crashes

import (
	"context"
	"slices"
	"time"
)

// at is where a point stands.
type at int

const (
	inService at = iota
	inSigner
	inCommand // in the process of a person's command
	outside   // at the provider, on the chain or with the operator: played by this package
)

// point is a place where a crash must be survived.
type point struct {
	name   string
	what   string
	at     at
	commit bool // what it comes after is a commit whose answer can be lost
	play   func(ctx context.Context, s *stage) error
	faults []Fault // nil means all
	via    string  // the point of the source that it is played at, where that is another
}

func (p point) takes(f Fault) bool { return p.faults == nil || slices.Contains(p.faults, f) }

// hard are the faults of points that a second service has no part in.
var hard = []Fault{Kill, Signer, Postgres, Cut}

// points are all that are played.
var points = []point{
	{name: "W01", what: "parsed, before the gates", play: payment1},
	{name: "W02", what: "decided, before commit", play: payment1},
	{name: "W03", what: "commit of request, hold, decision and order: answer lost", commit: true, play: payment1},
	{name: "W04", what: "committed, before the response", play: payment1},
	{name: "W05", what: "before Admit", play: payment1},
	{name: "W06", what: "admitted, reply lost", at: inSigner, play: payment1},
	{name: "W07", what: "admitted, before the slot's commit", play: payment1},
	{name: "W08", what: "slot's commit: answer lost", commit: true, play: payment1},
	{name: "W09", what: "slot committed, before Sign", play: payment1},
	{name: "W10", what: "in the signer, before the journal's fsync", at: inSigner, play: payment1},
	{name: "W11", what: "journaled, before returning", at: inSigner, play: payment1},
	{name: "W12", what: "bytes returned, before they are stored", play: payment1},
	{name: "W13", what: "store's commit: answer lost", commit: true, play: payment1},
	{name: "W14", what: "stored, before broadcast", play: payment1},
	{name: "W15", what: "sent, reply unread", at: outside, play: lied},
	{name: "W16", what: "taken by the provider, which answers an error", at: outside, play: lied},
	{name: "W17", what: "taken by the provider, which forgets it", at: outside, play: lied},
	{name: "W18", what: "taken, before the state's commit", play: payment1},
	{name: "W19", what: "state's commit: answer lost", commit: true, play: payment1},
	{name: "W20", what: "event written, before it is numbered", play: payment1},
	{name: "W21", what: "numbered, before delivery", play: payment1},
	{name: "W22", what: "waiting for its block to be final", play: payment1},
	{name: "W23", what: "replacement journaled, before it is stored", play: replaced},
	{name: "W24", what: "two versions out, the older one mined", at: outside, play: olderMined},
	{name: "W25", what: "mined, then forked away", play: forkedAway},
	{name: "W26", what: "final, before the books", play: payment1},
	{name: "W27", what: "settlement's commit: answer lost", commit: true, play: payment1},
	{name: "W28", what: "reverted on chain, before the release", play: reverted},
	{name: "W29", what: "release's commit: answer lost", commit: true, play: reverted},
	{name: "W30", what: "cancel signed while the payment waits in the pool", play: cancelled},

	{name: "Q07", what: "admitted behind dozens that are not final, before the slot's commit", play: deep},
	{name: "Q08", what: "slot's commit behind dozens: answer lost", commit: true, play: deep},
	{name: "Q11", what: "journaled behind dozens, before returning", at: inSigner, play: deep},
	{name: "Q13", what: "store's commit behind dozens: answer lost", commit: true, play: deep},
	{name: "Q14", what: "stored behind dozens, before broadcast", play: deep},
	{name: "Q19", what: "state's commit behind dozens: answer lost", commit: true, play: deep},
	{name: "Q22", what: "one of dozens waiting for its block to be final", play: deep},
	{name: "Q25", what: "the last block of dozens forked away", play: deepFork},
	{name: "Q27", what: "settlement's commit of one of dozens: answer lost", commit: true, play: deep},

	{name: "A01", what: "approval decided, before commit", at: inCommand, play: approved, faults: hard},
	{name: "A02", what: "approval's commit: answer lost", at: inCommand, commit: true, play: approved, faults: hard},
	{name: "A03", what: "approved and removed at once, one in its transaction, the other waiting", at: inCommand, play: approvedAndRemoved, faults: hard},
	{name: "A04", what: "two who have to approve, at once, one in its transaction, the other waiting", at: inCommand, play: approvedByTwo, faults: hard},
	{name: "A06", what: "the payee changed in the database between display and approval", at: inCommand, play: wordsChanged, faults: hard},

	{name: "D01", what: "block fetched", play: deposit1},
	{name: "D02", what: "rows written, cursor not committed", play: deposit1},
	{name: "D03", what: "cursor's commit: answer lost", commit: true, play: deposit1},
	{name: "D04", what: "final, before screening", play: screened1},
	{name: "D05", what: "screening's answer, not acted upon", play: screened1},
	{name: "D06", what: "screened, before the credit's transaction", play: screened1},
	{name: "D07", what: "credit in its transaction", play: deposit1},
	{name: "D08", what: "credit's commit: answer lost", commit: true, play: screened1},
	{name: "D09", what: "its event before it is numbered", play: deposit1},
	{name: "D10", what: "the walk set back over a deposit that is being credited", play: rescanned},
	{name: "D11", what: "two walkers at one block", play: twoWalkers, faults: hard},
	{name: "D12", what: "fork found, before deposits are orphaned", play: forkFound},
	{name: "D13", what: "included again in another block, before commit", play: includedAgain},
	{name: "D14", what: "a block that cannot be decoded", at: outside, play: undecodable, faults: hard},

	{name: "F01", what: "approval's commit: answer lost", commit: true, play: approvedFlag},
	{name: "F01b", what: "approval in its transaction, before commit", play: approvedFlag},
	{name: "F02", what: "reject's commit of decision and order: answer lost", commit: true, play: rejectedFlag},
	{name: "F02b", what: "reject in its transaction, before commit", play: rejectedFlag},
	{name: "F03", what: "gas for a return sent, reply not acted upon", play: rejectedFlag},
	{name: "F04", what: "return journaled by the signer, before returning", at: inSigner, play: returnedBy},
	{name: "F05", what: "return sent, reply unread", at: outside, play: liedReturn},
	{name: "F05b", what: "return taken by the provider, which answers an error", at: outside, play: liedReturn},
	{name: "F05c", what: "return taken by the provider, which forgets it", at: outside, play: liedReturn},
	{name: "F06", what: "a return that its payee refuses, before the deposit is in the queue again", play: refusedReturn},
	{name: "F07", what: "a return that is final, before its event and the commit", play: redirectedFlag},
	{name: "F08", what: "organization and operator decide at once, one in its transaction, the other waiting", play: bothDecide},
	{name: "F10", what: "another deposit flagged while the signer signs a sweep of its address", at: inSigner, play: flaggedBeside},
	{name: "F11", what: "return reverted on chain, before the books", play: revertedReturn},
	{name: "F12", what: "commit of a return's end, its release and its event: answer lost", commit: true, play: returnedBy},

	{name: "T01", what: "transfers written together, before commit", play: moved1},
	{name: "T02", what: "commit of transfers: answer lost", commit: true, play: moved1},

	{name: "V01", what: "payment taken back, its end decided: answer lost, before the signer is asked", commit: true, play: takenBack},
	{name: "V02", what: "void in the signer, before the journal's fsync", at: inSigner, play: takenBack},
	{name: "V03", what: "void journaled, before returning", at: inSigner, play: takenBack},
	{name: "V04", what: "void answered, before the end and the release", play: takenBack},
	{name: "V05", what: "commit of the end and the release: answer lost", commit: true, play: takenBack},
	{name: "V06", what: "payment ended by the operator: answer lost, before the signer is asked", at: inCommand, commit: true, play: operatorEnds, faults: hard},
	{name: "V07", what: "return ended by the operator: answer lost, before the signer is asked", at: inCommand, commit: true, play: operatorEndsReturn, faults: hard},

	{name: "S01", what: "planned, before commit", play: swept1},
	{name: "S02", what: "gas top-up stored, before broadcast", play: swept1},
	{name: "S03", what: "top-up settled, sweep not admitted", play: swept1},
	{name: "S04", what: "sweep stored, before broadcast", play: swept1},
	{name: "S05", what: "sweep sent, reply not acted upon", play: swept1},
	{name: "S06", what: "another deposit credited between plan and signature", play: sweptTwice},
	{name: "S05b", what: "sweep sent, and another deposit at its address flagged", play: flaggedBeside},
	{name: "S06b", what: "sweep about to be signed, and another deposit at its address flagged", play: flaggedBeside},
	{name: "S07", what: "another deposit flagged between plan and signature, before the signer admits the sweep", play: flaggedBeside},
	{name: "S09", what: "sweep final, before the books and the fee", play: swept1},

	{name: "K01", what: "event in its transaction", play: payment1},
	{name: "K02", what: "delivery claimed, not posted", play: payment1},
	{name: "K03", what: "posted, reply not acted upon", play: payment1},
	{name: "K04", what: "2xx, before the attempt is recorded", play: payment1},
	{name: "K05", what: "record's commit: answer lost", commit: true, play: payment1},
	{name: "K07", what: "endpoint deleted between two attempts", at: outside, play: endpointGone, faults: hard},
	{name: "K08", what: "stopped with a claim for longer than its lease", play: overslept, faults: []Fault{Stop}},

	{name: "O06", what: "audit row written, before commit", play: payment1},
	{name: "O09", what: "rows of the audit log sealed: answer lost", commit: true, play: deposit1},
	{name: "O10", what: "chain anchored by the signer, answer not acted upon", play: deposit1},
}

// via names the point of the source that a point is played at on every chain, where that
// is another.
var via = map[string]string{
	"Q07": "W07", "Q08": "W08", "Q11": "W11", "Q13": "W13", "Q14": "W14", "Q19": "W19", "Q22": "W22", "Q25": "W22", "Q27": "W27",
	"W25": "W22", "D10": "D06", "D11": "D02", "K08": "K04",
	"A03": "A02.commit", "A04": "A02.commit", "A06": "A01",
	// A decision that stands before its commit, and what everything that leaves passes,
	// once the gas of a return is there.
	"F01b": "F01.commit", "F02b": "F02.commit", "F04": "W11", "F08": "F01.commit", "F10": "W11", "F11": "W28", "F12": "W27",
	"V07":  "V06",
	"S05b": "S05", "S06b": "S06", "S07": "S03",
}

// unplayed are the points of the list that have no place here, and why: most belong
// to what the service cannot do yet, some are no crash and are tried elsewhere.
var unplayed = []struct{ name, why string }{
	{"A05", "approval and order are one transaction, and the table says so: withdrawals_follow (withdrawals_as_ordered) refuses a commit with one and not the other; A02 plays its ends"},
	{"S08", "a fork below what is final freezes the chain for a person to decide: nothing drains by itself; played on anvil by internal/deposit"},
	{"S10", "a token that returns false is no crash: trial/tokens plays it"},
	{"K06", "an endpoint's secret cannot be rotated yet"},
	{"F09", "the organization may not redirect, whatever else happens: a refusal and no crash. TestNobodyButTheOperatorSendsAFlaggedDepositElsewhere of internal/api has every credential try it, trial/flags the code below"},
	{"X01-X10", "there are no swaps yet"},
	{"O01", "a key is rolled by one statement of a command; whoever loses its answer rolls it again"},
	{"O02", "each request reads its key's row anew; the tests of org have it"},
	{"O03", "the row of an address is written with the approval that adds it, and the signer is asked afterwards, again and again; the tests of whitelist cut it off in between"},
	{"O04", "the threshold is read in the transaction that decides; make soak changes it between requests"},
	{"O05", "the policy is a file that the signer reads when it starts; nothing is pushed"},
	{"O07", "make drill"},
	{"O08", "make drill"},
}

// overslept outlives the lease of a delivery.
const leaseAndMore = 70 * time.Second

// place names the point of the source that a point is played at.
func (p point) place() string {
	if p.via != "" {
		return p.via
	}
	if at, ok := via[p.name]; ok {
		return at
	}
	return p.name
}
