package crashes

import (
	"context"
	"slices"
	"time"
)

// pointLocation says in which process a point is.
type pointLocation int

const (
	inService pointLocation = iota
	inSigner
	inCommand      // in the process of a person's command
	outsideService // at the provider, on the chain or with the operator: this package plays it
)

// point is a step at which a crash must be survived.
type point struct {
	name        string
	title       string
	location    pointLocation
	commit      bool // the step before it is a commit whose answer can be lost
	play        func(ctx context.Context, s *cellRun) error
	faults      []Fault // nil means all
	sourcePoint string  // the point of the source at which it is played, if that differs
}

func (p point) acceptsFault(f Fault) bool { return p.faults == nil || slices.Contains(p.faults, f) }

// singleServiceFaults are the faults of points that do not involve a second service.
var singleServiceFaults = []Fault{Kill, Signer, Postgres, Cut}

// points are all points that are played.
var points = []point{
	{name: "W01", title: "parsed, before the gates", play: playPayment},
	{name: "W02", title: "decided, before commit", play: playPayment},
	{name: "W03", title: "commit of request, hold, decision and order: answer lost", commit: true, play: playPayment},
	{name: "W04", title: "committed, before the response", play: playPayment},
	{name: "W05", title: "before Admit", play: playPayment},
	{name: "W06", title: "admitted, reply lost", location: inSigner, play: playPayment},
	{name: "W07", title: "admitted, before the slot's commit", play: playPayment},
	{name: "W08", title: "slot's commit: answer lost", commit: true, play: playPayment},
	{name: "W09", title: "slot committed, before Sign", play: playPayment},
	{name: "W10", title: "in the signer, before the journal's fsync", location: inSigner, play: playPayment},
	{name: "W11", title: "journaled, before returning", location: inSigner, play: playPayment},
	{name: "W12", title: "bytes returned, before they are stored", play: playPayment},
	{name: "W13", title: "store's commit: answer lost", commit: true, play: playPayment},
	{name: "W14", title: "stored, before broadcast", play: playPayment},
	{name: "W15", title: "sent, reply unread", location: outsideService, play: playProviderFault},
	{
		name: "W16", title: "taken by the provider, which answers an error", location: outsideService,
		play: playProviderFault,
	},
	{name: "W17", title: "taken by the provider, which forgets it", location: outsideService, play: playProviderFault},
	{name: "W18", title: "taken, before the state's commit", play: playPayment},
	{name: "W19", title: "state's commit: answer lost", commit: true, play: playPayment},
	{name: "W20", title: "event written, before it is numbered", play: playPayment},
	{name: "W21", title: "numbered, before delivery", play: playPayment},
	{name: "W22", title: "waiting for its block to be final", play: playPayment},
	{name: "W23", title: "replacement journaled, before it is stored", play: playReplacement},
	{name: "W24", title: "two versions out, the older one mined", location: outsideService, play: playOlderVersion},
	{name: "W25", title: "mined, then forked away", play: playForkedPayment},
	{name: "W26", title: "final, before the books", play: playPayment},
	{name: "W27", title: "settlement's commit: answer lost", commit: true, play: playPayment},
	{name: "W28", title: "reverted on chain, before the release", play: playRevertedPayment},
	{name: "W29", title: "release's commit: answer lost", commit: true, play: playRevertedPayment},
	{name: "W30", title: "cancel signed while the payment waits in the pool", play: playCancel},

	{name: "P07", title: "admitted behind dozens that are not final, before the slot's commit", play: playDeepPipeline},
	{name: "P08", title: "slot's commit behind dozens: answer lost", commit: true, play: playDeepPipeline},
	{name: "P11", title: "journaled behind dozens, before returning", location: inSigner, play: playDeepPipeline},
	{name: "P13", title: "store's commit behind dozens: answer lost", commit: true, play: playDeepPipeline},
	{name: "P14", title: "stored behind dozens, before broadcast", play: playDeepPipeline},
	{name: "P19", title: "state's commit behind dozens: answer lost", commit: true, play: playDeepPipeline},
	{name: "P22", title: "one of dozens waiting for its block to be final", play: playDeepPipeline},
	{name: "P25", title: "the last block of dozens forked away", play: playDeepFork},
	{name: "P27", title: "settlement's commit of one of dozens: answer lost", commit: true, play: playDeepPipeline},

	{
		name: "A01", title: "approval decided, before commit", location: inCommand, play: playApproval,
		faults: singleServiceFaults,
	},
	{
		name: "A02", title: "approval's commit: answer lost", location: inCommand, commit: true, play: playApproval,
		faults: singleServiceFaults,
	},
	{
		name: "A03", title: "approved and removed at once, one in its transaction, the other waiting",
		location: inCommand, play: playApproveAndRemove, faults: singleServiceFaults,
	},
	{
		name: "A04", title: "two who have to approve, at once, one in its transaction, the other waiting",
		location: inCommand, play: playTwoApprovals, faults: singleServiceFaults,
	},
	{
		name: "A06", title: "the payee changed in the database between display and approval", location: inCommand,
		play: playChangedPayee, faults: singleServiceFaults,
	},

	{name: "D01", title: "block fetched", play: playDeposit},
	{name: "D02", title: "rows written, cursor not committed", play: playDeposit},
	{name: "D03", title: "cursor's commit: answer lost", commit: true, play: playDeposit},
	{name: "D04", title: "final, before screening", play: playScreenedDeposit},
	{name: "D05", title: "screening's answer, not acted upon", play: playScreenedDeposit},
	{name: "D06", title: "screened, before the credit's transaction", play: playScreenedDeposit},
	{name: "D07", title: "credit in its transaction", play: playDeposit},
	{name: "D08", title: "credit's commit: answer lost", commit: true, play: playScreenedDeposit},
	{name: "D09", title: "its event before it is numbered", play: playDeposit},
	{name: "D10", title: "the walk set back over a deposit that is being credited", play: playRescan},
	{name: "D11", title: "two walkers at one block", play: playTwoWalkers, faults: singleServiceFaults},
	{name: "D12", title: "fork found, before deposits are orphaned", play: playForkedDeposit},
	{name: "D13", title: "included again in another block, before commit", play: playReincludedDeposit},
	{
		name: "D14", title: "a block that cannot be decoded", location: outsideService, play: playUndecodableBlock,
		faults: singleServiceFaults,
	},

	{name: "F01", title: "approval's commit: answer lost", commit: true, play: playApprovedDeposit},
	{name: "F01b", title: "approval in its transaction, before commit", play: playApprovedDeposit},
	{name: "F02", title: "reject's commit of decision and order: answer lost", commit: true, play: playRejectedDeposit},
	{name: "F02b", title: "reject in its transaction, before commit", play: playRejectedDeposit},
	{name: "F03", title: "gas for a return sent, reply not acted upon", play: playRejectedDeposit},
	{name: "F04", title: "return journaled by the signer, before returning", location: inSigner, play: playReturn},
	{name: "F05", title: "return sent, reply unread", location: outsideService, play: playReturnProviderFault},
	{
		name: "F05b", title: "return taken by the provider, which answers an error", location: outsideService,
		play: playReturnProviderFault,
	},
	{
		name: "F05c", title: "return taken by the provider, which forgets it", location: outsideService,
		play: playReturnProviderFault,
	},
	{
		name: "F06", title: "a return that its payee refuses, before the deposit is in the queue again",
		play: playRefusedReturn,
	},
	{name: "F07", title: "a return that is final, before its event and the commit", play: playRedirectedDeposit},
	{
		name: "F08", title: "organization and operator decide at once, one in its transaction, the other waiting",
		play: playTwoDecisions,
	},
	{
		name: "F10", title: "another deposit flagged while the signer signs a sweep of its address", location: inSigner,
		play: playFlaggedSameAddress,
	},
	{name: "F11", title: "return reverted on chain, before the books", play: playRevertedReturn},
	{
		name: "F12", title: "commit of a return's end, its release and its event: answer lost", commit: true,
		play: playReturn,
	},

	{name: "T01", title: "transfers written together, before commit", play: playTransfer},
	{name: "T02", title: "commit of transfers: answer lost", commit: true, play: playTransfer},

	{
		name: "V01", title: "payment taken back, its end decided: answer lost, before the signer is asked",
		commit: true, play: playRecall,
	},
	{name: "V02", title: "void in the signer, before the journal's fsync", location: inSigner, play: playRecall},
	{name: "V03", title: "void journaled, before returning", location: inSigner, play: playRecall},
	{name: "V04", title: "void answered, before the end and the release", play: playRecall},
	{name: "V05", title: "commit of the end and the release: answer lost", commit: true, play: playRecall},
	{
		name: "V06", title: "payment ended by the operator: answer lost, before the signer is asked",
		location: inCommand, commit: true, play: playOperatorEnd, faults: singleServiceFaults,
	},
	{
		name: "V07", title: "return ended by the operator: answer lost, before the signer is asked",
		location: inCommand, commit: true, play: playOperatorReturnEnd, faults: singleServiceFaults,
	},

	{name: "S01", title: "planned, before commit", play: playSweep},
	{name: "S02", title: "gas top-up stored, before broadcast", play: playSweep},
	{name: "S03", title: "top-up settled, sweep not admitted", play: playSweep},
	{name: "S04", title: "sweep stored, before broadcast", play: playSweep},
	{name: "S05", title: "sweep sent, reply not acted upon", play: playSweep},
	{name: "S06", title: "another deposit credited between plan and signature", play: playSecondDeposit},
	{name: "S05b", title: "sweep sent, and another deposit at its address flagged", play: playFlaggedSameAddress},
	{
		name: "S06b", title: "sweep about to be signed, and another deposit at its address flagged",
		play: playFlaggedSameAddress,
	},
	{
		name: "S07", title: "another deposit flagged between plan and signature, before the signer admits the sweep",
		play: playFlaggedSameAddress,
	},
	{name: "S09", title: "sweep final, before the books and the fee", play: playSweep},

	{name: "K01", title: "event in its transaction", play: playPayment},
	{name: "K02", title: "delivery claimed, not posted", play: playPayment},
	{name: "K03", title: "posted, reply not acted upon", play: playPayment},
	{name: "K04", title: "2xx, before the attempt is recorded", play: playPayment},
	{name: "K05", title: "record's commit: answer lost", commit: true, play: playPayment},
	{
		name: "K07", title: "endpoint deleted between two attempts", location: outsideService,
		play: playDeletedEndpoint, faults: singleServiceFaults,
	},
	{
		name: "K08", title: "stopped with a claim for longer than its lease", play: playExpiredLease,
		faults: []Fault{Stop},
	},

	{name: "Q01", title: "key of a swap looked up, before dry quotes", play: playSwap},
	{name: "Q02", title: "wallets of a swap issued, before the firm quote", play: playSwap},
	{name: "Q03", title: "firm quote requested, reply lost", play: playSwap},
	{name: "Q04", title: "firm quote checked, before commit", play: playSwap},
	{name: "Q05", title: "commit of swap, offer, hold and order: answer lost", commit: true, play: playSwap},
	{
		name: "Q05b", title: "a swap requested by 32 callers with one key at two services, one before its commit",
		play: playManyCallers, faults: singleServiceFaults,
	},
	{
		// The signer decides about one intent at a time, so a second service could not start meanwhile.
		name: "Q06", title: "signed quote checked in the signer, before the journal", location: inSigner,
		play: playSwap, faults: singleServiceFaults,
	},
	{name: "Q07", title: "payment to the provider taken, before the state's commit", play: playSwap},
	{name: "Q08", title: "provider asked, reply lost", play: playSwap},
	{name: "Q09", title: "payment to the provider final, before the books", play: playSwap},
	{name: "Q10", title: "commit of the claim on the provider: answer lost", commit: true, play: playSwap},
	{name: "Q11", title: "report of the provider read, before it is stored", play: playSwap},
	{name: "Q12", title: "payment recalled for lateness: answer lost", commit: true, play: playLateSwap},
	{name: "Q13", title: "delivery in its transaction", play: playSwap},
	{name: "Q14", title: "delivery's commit: answer lost", commit: true, play: playSwap},
	{name: "Q15", title: "report of a failure confirmed, before FAILED", play: playFailedSwap},
	{name: "Q16", title: "failure's commit: answer lost", commit: true, play: playFailedSwap},
	{name: "Q17", title: "refund in its transaction", play: playRefundedSwap},
	{name: "Q18", title: "refund's commit: answer lost", commit: true, play: playRefundedSwap},
	{name: "Q19", title: "two restores at once, one in its transaction, the other waiting", play: playRestores},
	{name: "Q20", title: "restore's commit: answer lost", commit: true, play: playRestores},
	{name: "Q21", title: "failure written, before commit, the delivery waiting for its row", play: playFailureFirst},
	{
		name: "Q21b", title: "delivery written, before commit, a confirmed failure waiting for its row",
		play: playDeliveryFirst,
	},
	{name: "Q22", title: "commit of a delivery after the failure: answer lost", commit: true, play: playLateDelivery},
	{name: "Q23", title: "decision about a late delivery: answer lost", commit: true, play: playStrayArrival},
	{name: "Q24", title: "swap of the organization delivered, before its payout is requested", play: playOwnSwap},
	{
		name: "Q24b", title: "commit of the payout of a swap of the organization: answer lost", commit: true,
		play: playOwnSwap,
	},
	{name: "Q25", title: "commit of a deposit swap's row: answer lost", commit: true, play: playDepositSwap},
	{
		name: "Q26", title: "arrival of a deposit swap screened, before the credit's transaction",
		play: playScreenedDepositSwap,
	},

	{name: "QW05", title: "swap's payment before Admit", play: playSwap},
	{name: "QW06", title: "swap's payment admitted, reply lost", location: inSigner, play: playSwap},
	{name: "QW07", title: "swap's payment admitted, before the slot's commit", play: playSwap},
	{name: "QW08", title: "slot's commit of a swap's payment: answer lost", commit: true, play: playSwap},
	{name: "QW09", title: "slot committed, before Sign of a swap's payment", play: playSwap},
	{
		name: "QW10", title: "swap's payment in the signer, before the journal's fsync", location: inSigner,
		play: playSwap,
	},
	{name: "QW11", title: "swap's payment journaled, before returning", location: inSigner, play: playSwap},
	{name: "QW12", title: "bytes of a swap's payment returned, before they are stored", play: playSwap},
	{name: "QW13", title: "store's commit of a swap's payment: answer lost", commit: true, play: playSwap},
	{name: "QW14", title: "swap's payment stored, before broadcast", play: playSwap},
	{name: "QW15", title: "swap's payment sent, reply unread", location: outsideService, play: playSwapProviderFault},
	{
		name: "QW16", title: "swap's payment taken by the chain's provider, which answers an error",
		location: outsideService, play: playSwapProviderFault,
	},
	{
		name: "QW17", title: "swap's payment taken by the chain's provider, which forgets it",
		location: outsideService, play: playSwapProviderFault,
	},
	{name: "QW19", title: "state's commit of a swap's payment: answer lost", commit: true, play: playSwap},
	{name: "QW20", title: "event of a swap written, before it is numbered", play: playSwap},
	{name: "QW21", title: "event of a swap numbered, before delivery", play: playSwap},
	{name: "QW22", title: "swap's payment waiting for its block to be final", play: playSwap},
	{name: "QW23", title: "replacement of a swap's payment journaled, before it is stored", play: playReplacedSwap},
	{
		name: "QW24", title: "two versions of a swap's payment out, the older one mined", location: outsideService,
		play: playOlderSwap,
	},
	{name: "QW25", title: "swap's payment mined, then forked away", play: playForkedSwap},
	{name: "QW26", title: "swap's payment final, before the settlement", play: playSwap},
	{name: "QW28", title: "cancel of a swap's payment final, before the release", play: playCancelledSwap},
	{name: "QW29", title: "commit of a cancelled swap's end: answer lost", commit: true, play: playCancelledSwap},

	{name: "C01", title: "commit of a checkout: answer lost", commit: true, play: playSale},
	{name: "C02", title: "address of a checkout issued, before its option", play: playSale},
	{name: "C03", title: "commit of option and quote: answer lost", commit: true, play: playSale},
	{name: "C04", title: "payment of a checkout claimed, before it is valued", play: playSale},
	{name: "C05", title: "payment valued, before the checkout knows it", play: playSale},
	{name: "C06", title: "settlement of a checkout: answer lost", commit: true, play: playSale},
	{name: "C07", title: "payment credited, before its checkout is completed", commit: true, play: playScreenedSale},
	{name: "C08", title: "checkout expires, before commit, a payment waiting for its row", play: playExpiredSale},
	{
		name: "C09", title: "cancellation of a checkout, a payment waiting for its row: answer lost", commit: true,
		play: playCancelledSale,
	},
	{name: "C10", title: "fork found, before the payment of a checkout is orphaned", play: playForkedSale},
	{name: "C11", title: "refund and hold: answer lost", commit: true, play: playRefund},
	{name: "C12", title: "claim of a refund: answer lost", commit: true, play: playRefund},
	{name: "C13", title: "refund about to end, a claim committed before it", play: playClaimedRefund},
	{name: "C14", title: "withdrawal of a refund ended, before the refund is", play: playRefund},
	{
		name: "C15", title: "rejection of a flagged payment, another one being refunded: answer lost", commit: true,
		play: playRejectedPart,
	},
	{
		name: "C16", title: "assignment of an unmatched payment, its status changing: answer lost", commit: true,
		play: playAssignedPayment,
	},

	{
		name: "B01", title: "commit of a batch with its rows: answer lost", location: inCommand, commit: true,
		play: playBatch, faults: singleServiceFaults,
	},
	{
		name: "B02", title: "commit of a submission with its hold: answer lost", location: inCommand, commit: true,
		play: playBatch, faults: singleServiceFaults,
	},
	{name: "B03", title: "some verdicts about rows stored, before the others", play: playBatch},
	{name: "B04", title: "rows left out and another hash: answer lost", commit: true, play: playBatch},
	{
		name: "B05", title: "approval of a batch: answer lost", location: inCommand, commit: true,
		play: playBatch, faults: singleServiceFaults,
	},
	{name: "B06", title: "a chunk of rows became withdrawals, before the others", play: playBatch},
	{name: "B07", title: "commit of a chunk of withdrawals: answer lost", commit: true, play: playBatch},
	{name: "B08", title: "a row of a group admitted by the signer, before the others", play: playBatch},
	{name: "B09", title: "a group has its slot, before Sign", play: playBatch},
	{name: "B10", title: "bytes of a group returned, before they are stored", play: playBatch},
	{name: "B11", title: "a group reverted on chain, before the release", play: playRevertedBatch},
	{name: "B12", title: "the last row of a batch ended, before the batch does", play: playBatch},
	{
		name: "B13", title: "rows become withdrawals, before commit, a pause and a cancellation waiting for the batch",
		play: playStoppedBatch, faults: singleServiceFaults,
	},

	{
		name: "E01", title: "row of a passkey committed, before the signer is asked", play: playEnrolment,
		faults: singleServiceFaults,
	},
	{
		name: "E02", title: "passkey in the signer, before the journal's fsync", location: inSigner,
		play: playEnrolment, faults: singleServiceFaults,
	},
	{
		name: "E03", title: "passkey journaled, before returning", location: inSigner, play: playEnrolment,
		faults: singleServiceFaults,
	},
	{
		name: "E04", title: "proof of a passkey answered, before it is stored", play: playEnrolment,
		faults: singleServiceFaults,
	},
	{
		name: "E05", title: "commit of a passkey's proof: answer lost", commit: true, play: playEnrolment,
		faults: singleServiceFaults,
	},
	{
		name: "E06", title: "end of a passkey committed, before the signer is asked", play: playRetirement,
		faults: singleServiceFaults,
	},
	{
		name: "E07", title: "end of a passkey journaled, before returning", location: inSigner, play: playRetirement,
		faults: singleServiceFaults,
	},
	{
		name: "E08", title: "end of a passkey answered, before its entry is stored", play: playRetirement,
		faults: singleServiceFaults,
	},
	{
		name: "E09", title: "commit of the entry of a passkey's end: answer lost", commit: true, play: playRetirement,
		faults: singleServiceFaults,
	},
	{
		name: "E10", title: "last signature of a rule committed, before the signer is asked", play: playRule,
		faults: singleServiceFaults,
	},
	{
		name: "E11", title: "rule journaled, before returning", location: inSigner, play: playRule,
		faults: singleServiceFaults,
	},
	{
		name: "E12", title: "proof of a rule answered, before it is stored", play: playRule,
		faults: singleServiceFaults,
	},
	{
		name: "E13", title: "commit of a rule's proof: answer lost", commit: true, play: playRule,
		faults: singleServiceFaults,
	},

	{name: "L01", title: "line of a network fee written, before it has a value", play: playLines},
	{name: "L02", title: "number, lines and document of an invoice: answer lost", commit: true, play: playBilling},
	{name: "L03", title: "invoice issued, before the next organization, a second run at once", play: playTwoRuns},
	{name: "L03b", title: "two runs at once, one in its transaction, the other waiting", play: playTwoRuns},
	{name: "L04", title: "credit note: answer lost", commit: true, play: playCredit},

	{name: "O06", title: "audit row written, before commit", play: playPayment},
	{name: "O09", title: "rows of the audit log sealed: answer lost", commit: true, play: playDeposit},
	{name: "O10", title: "chain anchored by the signer, answer not acted upon", play: playDeposit},
}

// sourcePoints names the point of the source at which a point is played on every chain, if that
// differs.
var sourcePoints = map[string]string{
	"P07": "W07", "P08": "W08", "P11": "W11", "P13": "W13", "P14": "W14", "P19": "W19", "P22": "W22", "P25": "W22",
	"P27": "W27",
	"W25": "W22", "D10": "D06", "D11": "D02", "K08": "K04",
	"Q05b": "Q05.commit",
	"Q21":  "Q16.commit", "Q21b": "Q14.commit", "Q24b": "W03",
	"C07": "D08", "C08": "C06.commit", "C10": "D12", "C15": "F02",
	"B09": "W09", "B10": "W12", "B11": "W28", "B13": "B07.commit",
	"QW05": "W05", "QW06": "W06", "QW07": "W07", "QW08": "W08", "QW09": "W09", "QW10": "W10", "QW11": "W11",
	"QW12": "W12", "QW13": "W13", "QW14": "W14", "QW19": "W19", "QW20": "W20", "QW21": "W21", "QW22": "W22",
	"QW23": "W23", "QW25": "W22", "QW26": "W26",
	// A cancel that is mined succeeds, so it passes where a payment does.
	"QW28": "W26", "QW29": "W29",
	"A03": "A02.commit", "A04": "A02.commit", "A06": "A01",
	// A decision before its commit, and the points that every outgoing payment passes, after the
	// gas of a return has arrived.
	"F01b": "F01.commit", "F02b": "F02.commit", "F04": "W11", "F08": "F01.commit", "F10": "W11", "F11": "W28",
	"F12": "W27",
	"V07": "V06",
	"E07": "E03", "E11": "E03",
	"L03b": "L02.commit",
	"S05b": "S05", "S06b": "S06", "S07": "S03",
}

// unplayed are the points of the list that are not played, and why. Most belong to features that
// the service does not have yet; some are no crash and have other tests.
var unplayed = []struct{ name, why string }{
	{
		"B14",
		"it begins with a backup from before the payments: TestARestoredBatchPaysNoRowTwiceAndWaits of " +
			"internal/service",
	},
	{
		"A05",
		"approval and order are one transaction, and the table says so: withdrawals_follow (withdrawals_as_ordered) refuses a commit with one and not the other; A02 plays its ends",
	},
	{
		"S08",
		"a fork below what is final freezes the chain for a person to decide: nothing drains by itself; played on anvil by internal/deposit",
	},
	{"S10", "a token that returns false is no crash: trial/tokens plays it"},
	{"K06", "an endpoint's secret cannot be rotated yet"},
	{
		"F09",
		"the organization may not redirect, whatever else happens: a refusal and no crash. TestNobodyButTheOperatorSendsAFlaggedDepositElsewhere of internal/http/surfacetest has every credential try it, trial/flagged the code below",
	},
	{"X01-X10", "other names of Q01, Q05, Q03, Q04, QW05 and later, Q13, Q15, Q19, and Q17 around Q20"},
	{"QW18", "Q07 stands at this place"},
	{"QW27", "Q10 is the same commit"},
	{"O01", "a key is rolled by one statement of a command; whoever loses its answer rolls it again"},
	{"O02", "each request reads its key's row anew; the tests of org have it"},
	{
		"O03",
		"the row of an address is written with the approval that adds it, and the signer is asked afterwards, again and again; the tests of whitelist cut it off in between",
	},
	{"O04", "the threshold is read in the transaction that decides; make soak changes it between requests"},
	{"O05", "the policy is a file that the signer reads when it starts; nothing is pushed"},
	{"O07", "make drill"},
	{"O08", "make drill"},
}

// leaseAndMore is longer than the lease of a delivery.
const leaseAndMore = 70 * time.Second

// sourceName returns the point of the source at which a point is played.
func (p point) sourceName() string {
	if p.sourcePoint != "" {
		return p.sourcePoint
	}
	if source, ok := sourcePoints[p.name]; ok {
		return source
	}
	return p.name
}
