package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// BatchPayoutRequest is the JSON body of POST /batch-payouts.
type BatchPayoutRequest struct {
	Rows           []BatchPayoutRow `json:"rows" doc:"The payments, in the order in which they are numbered: 1 to 5,000."`
	Mode           *string          `json:"mode,omitempty" doc:"What one row that cannot be paid does. STRICT, also if it is left out: nothing is paid. PARTIAL: the row is left out, and the others are paid." example:"STRICT"`
	UseDecimal     bool             `json:"useDecimal,omitempty" doc:"Whether amounts are in whole tokens, such as 1.5, instead of atomic units."`
	IdempotencyKey *string          `json:"idempotencyKey,omitempty" doc:"Your name for this batch: 1 to 255 printable ASCII characters without a space. It never expires. Without it every call makes another one." pattern:"^[!-~]{1,255}$" example:"salaries-2026-01"`
}

// BatchPayoutRow is a row of POST /batch-payouts. Every member may be left out, so that one answer names what is
// missing in which row.
type BatchPayoutRow struct {
	Reference  *string `json:"reference,omitempty" doc:"Your own reference of the payment, up to 255 bytes. Its events carry it." example:"invoice-4711"`
	CustomerID *string `json:"customerId,omitempty" doc:"A label of your own. It makes no customer and moves no customer's money; of a customer whom you know and who is frozen, the row is not paid." example:"user_42"`
	MintID     *int    `json:"mintId,omitempty" doc:"What is paid. Every row needs it." example:"1"`
	ToAddress  *string `json:"toAddress,omitempty" doc:"Where it goes, on the chain of the mint. Every row needs it." example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
	Memo       *string `json:"memo,omitempty" doc:"Leave it out: no chain of this installation has memos."`
	Amount     *string `json:"amount,omitempty" doc:"Whole atomic units, or whole tokens with useDecimal: ASCII digits without sign, exponent and separator. Every row needs it." example:"5000000"`
}

// BatchPayoutReport is a batch payout with what is wrong with its rows, and what a person should look at.
type BatchPayoutReport struct {
	webhook.BatchPayout

	Problems webhook.List[BatchPayoutProblem] `json:"problems" doc:"What is wrong with rows that cannot be read, all of it."`
	Warnings webhook.List[BatchPayoutWarning] `json:"warnings" doc:"What a person should look at before the batch is submitted."`
}

// BatchPayoutProblem is what is wrong with one value of one row.
type BatchPayoutProblem struct {
	Position int     `json:"position" doc:"The position of the row in the list, from 1." bounds:"minimum=1" example:"7"`
	Line     int     `json:"line" doc:"Its line in the text of a CSV list, whose header is line 1; in a JSON list the number of the row." bounds:"minimum=1" example:"8"`
	Column   *string `json:"column" doc:"The value; null for the row as a whole." example:"amount"`
	Message  string  `json:"message" doc:"What is wrong, for a person." example:"\"1,000\" has a separator, and it is not clear whether it separates thousands or decimals. Write digits without one, such as 1500000."`
}

// BatchPayoutWarning is something about one row that a person should look at.
type BatchPayoutWarning struct {
	Row       int    `json:"row" doc:"The number of the row." bounds:"minimum=1" example:"12"`
	Kind      string `json:"kind" doc:"DUPLICATE_ROW: an earlier row pays the same amount to the same address. REFERENCE_SEEN: a payment of the last 90 days has the same reference. LOOK_ALIKE: the address resembles a known one. FIRST_PAYMENT: your organization has never paid the address. Kinds may be added without notice." example:"LOOK_ALIKE"`
	Message   string `json:"message" doc:"The warning, for a person." example:"The address begins and ends like one that you have paid, and is another one."`
	NeedsTick bool   `json:"needsTick" doc:"Whether the submission has to name the row in ticked."`
}

// BatchPayoutItem is a row of a batch payout, with what became of it.
type BatchPayoutItem struct {
	Row        *int    `json:"row" doc:"The number of the row, which its withdrawal, its proof and its warnings name: from 1, without those that cannot be read. null for a row that cannot be read." bounds:"minimum=1" example:"7"`
	Position   int     `json:"position" doc:"Its position in the list, from 1, which problems name." bounds:"minimum=1" example:"7"`
	Line       int     `json:"line" doc:"Its line in the text of a CSV list, whose header is line 1; in a JSON list the number of the row." bounds:"minimum=1" example:"8"`
	Reference  *string `json:"reference" doc:"Your own reference of the payment." example:"invoice-4711"`
	CustomerID *string `json:"customerId" doc:"Your label, or null." example:"user_42"`
	MintID     *int    `json:"mintId" doc:"What is paid; null in a row whose mint cannot be read."`
	ToAddress  string  `json:"toAddress" doc:"Where it goes, in the canonical form of its chain. In a row that cannot be read, the text as it was given." example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
	Memo       *string `json:"memo"`
	Amount     string  `json:"amount" doc:"What the payee receives, in atomic units. In a row that cannot be read, the text as it was given." example:"5000000"`
	Included   bool    `json:"included" doc:"Whether the batch pays the row."`

	Status       string  `json:"status" doc:"UNREADABLE: the row cannot be read, see problems of the batch. EXCLUDED: the batch leaves it out. REFUSED: it is never paid by this batch. WAITING: it has no payment yet. Otherwise the status of the withdrawal that pays it. After REFUSED, FAILED, REJECTED and CANCELLED its amount is in the balance of BATCH_PAYOUT again. Statuses may be added without notice." example:"COMPLETED"`
	Reason       *string `json:"reason" doc:"Why it is not paid, or what it waits for, for a person; null if there is nothing to say." example:"Risk screening refuses this address."`
	WithdrawalID *string `json:"withdrawalId" doc:"The withdrawal that pays it; null without one." example:"wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	TxHash       *string `json:"txHash" doc:"The hash of its transaction; null before it has one."`
	NetworkFee   *string `json:"networkFee" doc:"What the network took for it, in atomic units of the native coin of its chain; null until that is final." form:"amount"`
}

// BatchPayoutSubmission is the body of POST /batch-payouts/{batchPayoutId}/submit.
type BatchPayoutSubmission struct {
	ContentHash            string  `json:"contentHash" doc:"The contentHash that you saw." pattern:"^sha256:[0-9a-f]{64}$" example:"sha256:9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b"`
	AcknowledgeDuplicateOf *string `json:"acknowledgeDuplicateOf,omitempty" doc:"The batch payout that existingId named, if the same list is meant to be paid once more." example:"bp_01J9ZW3M8Q4S5T6V7W8X9YZABD"`
	Ticked                 []int   `json:"ticked,omitempty" doc:"The rows whose warnings with needsTick a person has looked at."`
}

// BatchPayoutRetry is the body of POST /batch-payouts/{batchPayoutId}/retry.
type BatchPayoutRetry struct {
	IdempotencyKey *string `json:"idempotencyKey,omitempty" doc:"Your name for the new batch, as in POST /batch-payouts." pattern:"^[!-~]{1,255}$" example:"salaries-2026-01-again"`
}

// BatchPayoutProof proves to a payee that people approved a row.
type BatchPayoutProof struct {
	ContentHash string                 `json:"contentHash" doc:"What people approved." example:"sha256:9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b"`
	Header      BatchPayoutProofHeader `json:"header" doc:"What contentHash covers beside the rows."`
	Row         BatchPayoutProofRow    `json:"row" doc:"The row, whose hash is a leaf of the tree."`
	Path        webhook.List[string]   `json:"path" doc:"The hashes that lead from the leaf to the root, as RFC 6962 defines them."`
}

// BatchPayoutProofHeader is what the rows of a batch have in common.
type BatchPayoutProofHeader struct {
	OrgID    string                              `json:"orgId" doc:"Your organization." example:"org_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	BatchID  string                              `json:"batchId" doc:"The batch payout." example:"bp_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Mode     string                              `json:"mode" doc:"STRICT or PARTIAL." example:"STRICT"`
	MadeBy   string                              `json:"madeBy" doc:"Who made it, and never approves it." example:"API_KEY org_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Rows     int                                 `json:"rows" doc:"How many rows the list has." example:"120"`
	Included int                                 `json:"included" doc:"How many of them it pays." example:"120"`
	Totals   webhook.List[BatchPayoutProofTotal] `json:"totals" doc:"What they pay together, by mint."`
	Root     string                              `json:"root" doc:"The root of the tree of rows." example:"sha256:1f1a0e6f1c3b2a4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5"`
}

// BatchPayoutProofTotal is what a batch pays of one mint, as the hash covers it.
type BatchPayoutProofTotal struct {
	MintID int    `json:"mintId"`
	Amount string `json:"amount"`
}

// BatchPayoutProofRow is a row as its hash covers it.
type BatchPayoutProofRow struct {
	Row        int    `json:"row" doc:"The row, from 1." example:"7"`
	Salt       string `json:"salt" doc:"16 random bytes in base64, so that the proof of one row says nothing about the row beside it." example:"3q2+796tvu/erb7v3q2+7w=="`
	MintID     int    `json:"mintId"`
	Chain      string `json:"chain"`
	Contract   string `json:"contract" doc:"The token's contract; empty for the native coin of the chain." example:"0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"`
	ToAddress  string `json:"toAddress" doc:"Where it goes, in the canonical form of its chain." example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
	Amount     string `json:"amount"`
	Memo       string `json:"memo" doc:"Empty: no chain of this installation has memos."`
	CustomerID string `json:"customerId" doc:"Your label, or empty." example:"user_42"`
	Reference  string `json:"reference" doc:"Your own reference, or empty." example:"invoice-4711"`
	Included   bool   `json:"included" doc:"Whether the batch pays the row."`
}

var replayedBatchHeader = kernel.Header{
	Name: "Idempotent-Replayed",
	Text: "true when the key was known: the call made no other batch and returns the batch as it is now.",
}

// batchTableParameters say of a list in CSV what a list in JSON says in members of its body.
var batchTableParameters = []kernel.Parameter{
	{
		Name: "mode", Kind: kernel.WordParameter, Enum: modeNames(),
		Text: "The mode of a list in CSV. In JSON it is a member of the body.",
	},
	{
		Name: "useDecimal", Kind: kernel.FlagParameter,
		Text: "Whether amounts of a list in CSV are in whole tokens. In JSON it is a member of the body.",
	},
}

func modeNames() (names []string) {
	for _, m := range contenthash.Modes {
		names = append(names, string(m))
	}
	return names
}

// payoutRoutes are the calls about batch payouts. None of them approves or rejects one: people do. Rule BP-16.
func (a *api) payoutRoutes() []kernel.Route {
	const group = "Batch payouts"
	return []kernel.Route{
		{
			Method: http.MethodPost, Path: "/batch-payouts", Name: "createBatchPayout",
			Action: identity.ManageBatchPayouts, Group: group,
			Summary: "Make a batch payout",
			Text: "Makes a draft of a list of payments out of the balance of your product BATCH_PAYOUT. Nothing is " +
				"held and nothing is paid before its submission. The list is JSON, or CSV with Content-Type: " +
				"text/csv, whose first line names the columns reference, customerId, mintId, toAddress, memo and " +
				"amount, in any order, of which mintId, toAddress and amount are needed; commas, semicolons or tabs " +
				"separate them. A list of CSV has mode and useDecimal in the query and its key in the header " +
				"Idempotency-Key. A list has at most 5,000 rows and 2,000,000 bytes. problems names everything that " +
				"is wrong with a row, in one answer; nothing is guessed. STRICT refuses to be submitted with such a " +
				"row, and PARTIAL leaves it out. Correct the list and send it as a new batch: a draft never changes. " +
				"With an idempotencyKey the same list returns the same batch as it is now, and the same key with " +
				"another one is refused with 409 IDEMPOTENCY_CONFLICT. A key never expires. Without a key every " +
				"call makes another draft. A 4xx means that this request made none.",
			Query: batchTableParameters, BodyBytesMax: rowfile.BytesMax,
			Headers:  []kernel.Header{idempotencyKeyHeader},
			Answered: kernel.AnswerKnown(a.answerKnownBatch),
			Answers: []kernel.Success{{
				Status: http.StatusCreated, Text: "The draft. For a known key, the batch as it is now.",
				Headers: []kernel.Header{replayedBatchHeader},
			}},
			Faults: []fault.Code{fault.IdempotencyKeyMismatch, fault.IdempotencyConflict},
			Handler: kernel.HandleBodyOrTable(a.createBatch, a.createBatchOfTable,
				BatchPayoutRequest{
					Rows: []BatchPayoutRow{{
						Reference: new("invoice-4711"), MintID: new(1), ToAddress: new(resource.ExampleDestination),
						Amount: new("5000000"),
					}},
					IdempotencyKey: new("salaries-2026-01"),
				},
				draftExample(),
			),
		},
		{
			Method: http.MethodGet, Path: "/batch-payouts", Name: "listBatchPayouts",
			Action: identity.ReadOrganization, Group: group,
			Summary: "List batch payouts",
			Text: "The organization's batch payouts, without their rows. The table has no totals; " +
				"items.csv has the rows of one." + csvText,
			Query: kernel.ListParameters(kernel.Parameter{
				Name: "status", Kind: kernel.WordParameter, Enum: resource.BatchPayoutStatuses,
				Text: "Only in this status.",
			}),
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of batch payouts."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listBatches, kernel.ExamplePage(resource.ExampleBatchPayout)),
			Table:   kernel.ExportTable("batch-payouts", resource.BatchPayoutColumns, a.exportBatches),
		},
		{
			Method: http.MethodGet, Path: "/batch-payouts/{batchPayoutId}", Name: "getBatchPayout",
			Action: identity.ReadOrganization, Group: group,
			Summary: "Read a batch payout",
			Text: "One batch payout, with the problems of its rows and the warnings about them. Ask again to follow " +
				"one that is being paid: counts says how far it is.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The batch payout."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getBatch, draftExample()),
		},
		{
			Method: http.MethodGet, Path: "/batch-payouts/{batchPayoutId}/items", Name: "listBatchPayoutItems",
			Action: identity.ReadOrganization, Group: group,
			Summary: "List the rows of a batch payout",
			Text: "The rows of a batch payout in the order of the list, with what became of each. With .csv behind " +
				"the path, the call returns all of them as a table: the columns of the list in its order, and the " +
				"results behind them.",
			Query: []kernel.Parameter{
				{
					Name: "status", Kind: kernel.WordParameter, Enum: resource.BatchPayoutItemStatuses,
					Text: "Only rows in this status.",
				},
				kernel.LimitParameter, kernel.CursorParameter,
			},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of rows."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidCursor},
			Handler: kernel.Handle(a.listBatchItems, kernel.ExamplePage(exampleBatchItem)),
			Files: []kernel.File{
				kernel.ExportFile(".csv", "text/csv; charset=utf-8", a.exportBatchItems),
			},
		},
		{
			Method: http.MethodGet, Path: "/batch-payouts/{batchPayoutId}/items/{row}/proof",
			Name: "getBatchPayoutProof", Action: identity.ReadOrganization, Group: group,
			Summary: "Prove a row of a batch payout",
			Text: "Proves that people approved a row, for its payee: who has the proof computes the leaf of the row, " +
				"with path the root, and with the header the contentHash, without asking the service. It says " +
				"nothing about any other row.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The proof."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.Handle(a.getBatchProof, exampleBatchProof),
		},
		{
			Method: http.MethodPost, Path: "/batch-payouts/{batchPayoutId}/submit", Name: "submitBatchPayout",
			Action: identity.ManageBatchPayouts, Group: group,
			Summary: "Submit a batch payout",
			Text: "Submits a draft with the contentHash that you saw. Its whole sum leaves the balance of your " +
				"product BATCH_PAYOUT and is held, or nothing is held and 422 INSUFFICIENT_BALANCE has in " +
				"details.shortfall what is missing of each mint. Then the service checks and screens each row, and " +
				"the batch waits for the approval of people, never of its maker. A batch that was submitted before " +
				"is returned as it is. 409 APPROVAL_REFUSED: contentHash is not that of the batch. 409 " +
				"DUPLICATE_BATCH: the same list was submitted before, as existingId. Name it in " +
				"acknowledgeDuplicateOf if it is meant to be paid once more.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusAccepted, Text: "The batch payout, whose sum is held."}},
			Faults: []fault.Code{
				fault.CodeNotFound, fault.InvalidState, fault.ApprovalRefused, fault.DuplicateBatch,
				fault.InsufficientBalance, fault.OrganizationFrozen,
			},
			Handler: kernel.HandleBody(a.submitBatch,
				BatchPayoutSubmission{ContentHash: resource.ExampleBatchPayout.ContentHash},
				submittedExample(),
			),
		},
		{
			Method: http.MethodPost, Path: "/batch-payouts/{batchPayoutId}/cancel", Name: "cancelBatchPayout",
			Action: identity.StopBatchPayout, Group: group,
			Summary: "Cancel a batch payout",
			Text: "Takes a batch back. Before its approval its sum is in the balance of BATCH_PAYOUT again. While " +
				"its rows are being paid, it stays PROCESSING with stoppedAt: the service takes back what has no " +
				"transaction yet and returns those amounts, and the batch ends with the others. A cancelled one " +
				"stays as it is.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The cancelled batch payout."}},
			Faults:    []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler:   kernel.Handle(a.cancelBatch, cancelledBatchExample()),
		},
		{
			Method: http.MethodPost, Path: "/batch-payouts/{batchPayoutId}/pause", Name: "pauseBatchPayout",
			Action: identity.StopBatchPayout, Group: group,
			Summary: "Pause a batch payout",
			Text: "Stops the payment of further rows: none gets a payment, and no payment without a transaction gets " +
				"one. What is on its way to the chain goes on. A paused batch stays as it is.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The paused batch payout."}},
			Faults:    []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler:   kernel.Handle(a.pauseBatch, pausedBatchExample()),
		},
		{
			Method: http.MethodPost, Path: "/batch-payouts/{batchPayoutId}/resume", Name: "resumeBatchPayout",
			Action: identity.ManageBatchPayouts, Group: group,
			Summary:   "Resume a batch payout",
			Text:      "Goes on with the payment of a paused batch. One that is not paused stays as it is.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The batch payout, whose rows are being paid."}},
			Faults:    []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler:   kernel.Handle(a.resumeBatch, processingBatchExample()),
		},
		{
			Method: http.MethodPost, Path: "/batch-payouts/{batchPayoutId}/retry", Name: "retryBatchPayout",
			Action: identity.ManageBatchPayouts, Group: group,
			Summary: "Make a batch payout of unpaid rows",
			Text: "Makes a draft of the rows of an ended batch that were not paid, with approvals of its own: " +
				"nothing is paid again under the old one. retryOf names the ended batch. With an idempotencyKey the " +
				"same call returns the same draft.",
			Headers:  []kernel.Header{idempotencyKeyHeader},
			Optional: true,
			Answers:  []kernel.Success{{Status: http.StatusCreated, Text: "The draft of the unpaid rows."}},
			Faults: []fault.Code{
				fault.CodeNotFound, fault.InvalidState, fault.IdempotencyKeyMismatch, fault.IdempotencyConflict,
			},
			Handler: kernel.HandleBody(a.retryBatch,
				BatchPayoutRetry{IdempotencyKey: new("salaries-2026-01-again")}, retryExample()),
		},
	}
}

// readBatch translates a list in JSON. Errors: faults IDEMPOTENCY_KEY_MISMATCH and INVALID_REQUEST.
func readBatch(c *call, query kernel.Query, body BatchPayoutRequest) (r payout.CreateRequest, err error) {
	for _, p := range batchTableParameters {
		if _, isGiven := query[p.Name]; isGiven {
			return r, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"Of a list in JSON, %s is a member of the body and not a parameter.", p.Name).
				WithAdvice("Send it there.").WithParam(p.Name)
		}
	}
	r = payout.CreateRequest{UseDecimal: body.UseDecimal, Actor: c.Caller.Actor()}
	if r.IdempotencyKey, err = idempotencyKey(c.Header, body.IdempotencyKey); err != nil {
		return r, err
	}
	if r.Mode, err = readMode(resource.TextOrEmpty(body.Mode)); err != nil {
		return r, err
	}
	switch {
	case len(body.Rows) == 0:
		return r, newNoList(errors.New("The list has no rows."))
	case len(body.Rows) > rowfile.RowsMax:
		return r, newNoList(fmt.Errorf("The list has more than %d rows. Split it into several batches.",
			rowfile.RowsMax))
	}
	for i, row := range body.Rows {
		mintID := ""
		if row.MintID != nil {
			mintID = strconv.Itoa(*row.MintID)
		}
		r.Lines = append(r.Lines, rowfile.NewLine(i+1, i+1, []string{
			resource.TextOrEmpty(row.Reference), resource.TextOrEmpty(row.CustomerID), mintID,
			resource.TextOrEmpty(row.ToAddress), resource.TextOrEmpty(row.Memo), resource.TextOrEmpty(row.Amount),
		}))
	}
	return r, nil
}

// readBatchTable translates a list in CSV, with what the query and the header say of it. Errors: faults
// IDEMPOTENCY_KEY_MISMATCH and INVALID_REQUEST.
func readBatchTable(c *call, query kernel.Query) (r payout.CreateRequest, err error) {
	r.Actor = c.Caller.Actor()
	if isDecimal := query.FlagValue("useDecimal"); isDecimal != nil {
		r.UseDecimal = *isDecimal
	}
	if r.IdempotencyKey, err = idempotencyKey(c.Header, nil); err != nil {
		return r, err
	}
	if r.Mode, err = readMode(query["mode"]); err != nil {
		return r, err
	}
	if r.Lines, err = rowfile.ReadCSV(c.Body); err != nil {
		return r, newNoList(err)
	}
	return r, nil
}

// readMode reads the mode of a list; "" is STRICT.
func readMode(text string) (contenthash.Mode, error) {
	switch mode := contenthash.Mode(text); mode {
	case "":
		return contenthash.Strict, nil
	case contenthash.Strict, contenthash.Partial:
		return mode, nil
	}
	return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"mode has to be STRICT or PARTIAL.").WithParam("mode")
}

// newNoList returns the answer to a text that is no list at all.
func newNoList(err error) error {
	f := fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", err.Error()).
		WithAdvice("Correct the list, and send all of it again.").WithParam("rows")
	var refused *rowfile.FileError
	if errors.As(err, &refused) && refused.Line > 0 {
		f = f.WithDetail("line", refused.Line)
	}
	return f
}

// answerKnownBatch looks the key of a request up, before anything else of it can refuse it. Rules BP-17, IDEM-5.
func (a *api) answerKnownBatch(c *call) (shown BatchPayoutReport, isKnown bool, err error) {
	var inBody *string
	if !c.HasTable() {
		inBody = resource.OptionalText(c.TextMember("idempotencyKey"))
	}
	key, err := idempotencyKey(c.Header, inBody)
	if err != nil || key == nil {
		return shown, false, nil // createBatch refuses two different keys
	}
	found, isKnown, err := a.conf.Payouts.FindByKey(c.Context(), c.Caller.OrgID, *key)
	if err != nil || !isKnown {
		return shown, false, err
	}
	r, err := readAnyBatch(c)
	if err != nil {
		return shown, false, newKeyConflict("batch payout", found.ID)
	}
	shown, err = a.makeBatch(c, r)
	if err == nil {
		c.AnswerHeader.Set("Idempotent-Replayed", "true")
	}
	return shown, err == nil, err
}

// readAnyBatch translates a request of which nothing was checked.
func readAnyBatch(c *call) (r payout.CreateRequest, err error) {
	query, err := kernel.ReadQuery(c.Request.Request, batchTableParameters)
	if err != nil {
		return r, err
	}
	if c.HasTable() {
		return readBatchTable(c, query)
	}
	var body BatchPayoutRequest
	if err := c.DecodeBody(&body); err != nil {
		return r, err
	}
	return readBatch(c, query, body)
}

func (a *api) createBatch(c *call, body BatchPayoutRequest) (BatchPayoutReport, error) {
	r, err := readBatch(c, c.Query, body)
	if err != nil {
		return BatchPayoutReport{}, err
	}
	return a.makeBatch(c, r)
}

func (a *api) createBatchOfTable(c *call) (BatchPayoutReport, error) {
	r, err := readBatchTable(c, c.Query)
	if err != nil {
		return BatchPayoutReport{}, err
	}
	return a.makeBatch(c, r)
}

func (a *api) makeBatch(c *call, r payout.CreateRequest) (BatchPayoutReport, error) {
	b, err := a.conf.Payouts.Create(c.Context(), c.Caller.OrgID, r)
	if err != nil {
		return BatchPayoutReport{}, err
	}
	report, err := a.reportBatch(c, b)
	if err != nil { // the batch exists
		return report, fmt.Errorf("%w: %w", pg.ErrCommitUnknown, err)
	}
	return report, nil
}

// reportBatch returns a batch with its problems and warnings, and with what its networks would take.
func (a *api) reportBatch(c *call, b payout.Batch) (report BatchPayoutReport, err error) {
	bad, err := a.conf.Payouts.BadRows(c.Context(), b.OrgID, b.ID)
	if err != nil {
		return report, err
	}
	warnings, err := a.conf.Payouts.Warnings(c.Context(), b.OrgID, b.ID)
	if err != nil {
		return report, err
	}
	if report.BatchPayout, err = a.showBatch(c, b); err != nil {
		return report, err
	}
	report.EstimatedNetworkFeeUSD = a.estimateBatch(c, b)
	for _, row := range bad {
		for _, p := range row.Problems {
			report.Problems = append(report.Problems, BatchPayoutProblem{
				Position: p.Row, Line: p.Line, Column: resource.OptionalText(p.Column), Message: p.Message,
			})
		}
	}
	for _, w := range warnings {
		report.Warnings = append(report.Warnings, BatchPayoutWarning{
			Row: w.Row, Kind: string(w.Kind), Message: w.Text, NeedsTick: w.NeedsTick,
		})
	}
	return report, nil
}

// showBatch returns a batch with the values of its totals.
func (a *api) showBatch(c *call, b payout.Batch) (webhook.BatchPayout, error) {
	mints, err := a.loadCatalogue(c)
	if err != nil {
		return webhook.BatchPayout{}, err
	}
	return a.showValued(c.Context(), mints)(b), nil
}

// showValued returns what shows batches with the values of their totals.
func (a *api) showValued(ctx context.Context, mints mint.Catalogue) func(payout.Batch) webhook.BatchPayout {
	return func(b payout.Batch) webhook.BatchPayout {
		shown := wire.BatchPayout(b)
		for i, t := range b.Header.Totals {
			if m, isKnown := mints.ByID(t.MintID); isKnown {
				if v := report.USDValue(ctx, a.conf.Prices, m, t.Amount); v != nil {
					shown.Totals[i].USDValue = new(v.Cents())
				}
			}
		}
		return shown
	}
}

func (a *api) loadCatalogue(c *call) (mints mint.Catalogue, err error) {
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	return mints, err
}

// estimateTimeout bounds how long an answer about a batch waits for the chains.
const estimateTimeout = 2 * time.Second

// estimateBatch returns what the networks would take for a batch that people look at, or nil. Rule BP-92.
func (a *api) estimateBatch(c *call, b payout.Batch) *string {
	switch b.Status {
	case payout.Draft, payout.Validating, payout.AwaitingApproval:
	default:
		return nil
	}
	items, err := a.conf.Payouts.Items(c.Context(), b.OrgID, b.ID)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context(), estimateTimeout)
	defer cancel()
	var sum money.USD
	fees := map[int]*money.USD{}
	for _, i := range items {
		if !i.IsIncluded {
			continue
		}
		fee, isKnown := fees[i.MintID]
		if !isKnown {
			e, err := a.conf.Withdrawals.Estimate(ctx, b.OrgID, withdrawal.EstimateRequest{MintID: i.MintID})
			if err == nil {
				fee = e.NetworkFeeUSD
			}
			fees[i.MintID] = fee
		}
		if fee == nil {
			return nil
		}
		if sum, err = sum.Add(*fee); err != nil {
			return nil
		}
	}
	return new(sum.Cents())
}

// showBatchAfter shows a batch after a change of it. Without the catalogue its totals have no value: an error would
// say that nothing was changed.
func (a *api) showBatchAfter(c *call, b payout.Batch, err error) (webhook.BatchPayout, error) {
	if err != nil {
		return webhook.BatchPayout{}, err
	}
	shown, err := a.showBatch(c, b)
	if err != nil {
		shown = wire.BatchPayout(b)
	}
	return shown, nil
}

func (a *api) getBatch(c *call) (BatchPayoutReport, error) {
	b, err := a.conf.Payouts.ByID(c.Context(), c.Caller.OrgID, c.PathParam("batchPayoutId"))
	if err != nil {
		return BatchPayoutReport{}, err
	}
	return a.reportBatch(c, b)
}

// Rule BP-16.
func (a *api) submitBatch(c *call, body BatchPayoutSubmission) (webhook.BatchPayout, error) {
	hash, err := contenthash.Parse(body.ContentHash)
	if err != nil {
		return webhook.BatchPayout{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"contentHash is no hash: %v.", err).
			WithAdvice("Send the contentHash of the batch that you looked at.").WithParam("contentHash")
	}
	b, err := a.conf.Payouts.Submit(c.Context(), c.Caller.OrgID, c.PathParam("batchPayoutId"), payout.SubmitRequest{
		ContentHash: hash, AcknowledgeDuplicateOf: resource.TextOrEmpty(body.AcknowledgeDuplicateOf),
		Ticked: body.Ticked, Actor: c.Caller.Actor(),
	})
	return a.showBatchAfter(c, b, err)
}

func (a *api) cancelBatch(c *call) (webhook.BatchPayout, error) {
	b, err := a.conf.Payouts.Cancel(
		c.Context(), c.Caller.OrgID, c.PathParam("batchPayoutId"), c.Caller.Actor(),
	)
	return a.showBatchAfter(c, b, err)
}

func (a *api) pauseBatch(c *call) (webhook.BatchPayout, error) {
	b, err := a.conf.Payouts.Pause(c.Context(), c.Caller.OrgID, c.PathParam("batchPayoutId"), c.Caller.Actor())
	return a.showBatchAfter(c, b, err)
}

func (a *api) resumeBatch(c *call) (webhook.BatchPayout, error) {
	b, err := a.conf.Payouts.Resume(c.Context(), c.Caller.OrgID, c.PathParam("batchPayoutId"), c.Caller.Actor())
	return a.showBatchAfter(c, b, err)
}

func (a *api) retryBatch(c *call, body BatchPayoutRetry) (webhook.BatchPayout, error) {
	key, err := idempotencyKey(c.Header, body.IdempotencyKey)
	if err != nil {
		return webhook.BatchPayout{}, err
	}
	b, err := a.conf.Payouts.Retry(
		c.Context(), c.Caller.OrgID, c.PathParam("batchPayoutId"), key, c.Caller.Actor(),
	)
	return a.showBatchAfter(c, b, err)
}

func batchFilter(c *call) payout.Filter {
	return payout.Filter{
		Status: c.Query["status"], CreatedAfter: c.Query.TimeOrZero("createdAfter"),
		CreatedBefore: c.Query.TimeOrZero("createdBefore"),
	}
}

func (a *api) listBatches(c *call) (kernel.Page[webhook.BatchPayout], error) {
	const list = "batch payouts"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[webhook.BatchPayout]{}, err
	}
	found, err := a.conf.Payouts.List(c.Context(), c.Caller.OrgID, batchFilter(c), p)
	if err != nil {
		return kernel.Page[webhook.BatchPayout]{}, err
	}
	mints, err := a.loadCatalogue(c)
	if err != nil {
		return kernel.Page[webhook.BatchPayout]{}, err
	}
	return kernel.NewPage(c.Request, list, found, a.showValued(c.Context(), mints)), nil
}

func (a *api) exportBatches(c *call) (kernel.Rows[webhook.BatchPayout], error) {
	return func(ctx context.Context, desc bool, row func(webhook.BatchPayout) error) error {
		return a.conf.Payouts.ForEach(ctx, c.Caller.OrgID, batchFilter(c), desc,
			func(b payout.Batch) error { return row(wire.BatchPayout(b)) })
	}, nil
}

// listBatchItems lists rows by their position in the list.
func (a *api) listBatchItems(c *call) (page kernel.Page[BatchPayoutItem], err error) {
	batchID := c.PathParam("batchPayoutId")
	list := "items of " + batchID
	p, err := c.ReadPage(list)
	if err != nil {
		return page, err
	}
	after := 0
	if p.Cursor != nil {
		if after, err = strconv.Atoi(p.Cursor.ID); err != nil {
			return page, fmt.Errorf("a cursor that we signed has no position: %w", err)
		}
	}
	limit := p.Limit
	if limit == 0 {
		limit = pagination.LimitDefault
	}
	items, err := a.loadBatchItems(c, batchID)
	if err != nil {
		return page, err
	}
	var found pagination.Result[BatchPayoutItem]
	for _, i := range items {
		if i.Position <= after || c.Query["status"] != "" && i.Status != c.Query["status"] {
			continue
		}
		if len(found.Items) == limit {
			last := found.Items[limit-1].Position
			found.NextCursor = &pagination.Cursor{CreatedAt: time.Unix(0, 0), ID: strconv.Itoa(last)}
			break
		}
		found.Items = append(found.Items, i)
	}
	return kernel.NewPage(c.Request, list, found, func(i BatchPayoutItem) BatchPayoutItem { return i }), nil
}

// loadBatchItems returns all rows of a batch, those that cannot be read among them, by their position.
func (a *api) loadBatchItems(c *call, batchID string) ([]BatchPayoutItem, error) {
	b, err := a.conf.Payouts.ByID(c.Context(), c.Caller.OrgID, batchID)
	if err != nil {
		return nil, err
	}
	items, err := a.conf.Payouts.Items(c.Context(), b.OrgID, b.ID)
	if err != nil {
		return nil, err
	}
	bad, err := a.conf.Payouts.BadRows(c.Context(), b.OrgID, b.ID)
	if err != nil {
		return nil, err
	}
	shown := make([]BatchPayoutItem, 0, len(items)+len(bad))
	for _, i := range items {
		for len(bad) > 0 && bad[0].Position < i.Position {
			shown, bad = append(shown, showBadRow(bad[0])), bad[1:]
		}
		shown = append(shown, showBatchItem(i))
	}
	for _, row := range bad {
		shown = append(shown, showBadRow(row))
	}
	return shown, nil
}

// showBadRow shows a row that cannot be read, with its values as they were given.
func showBadRow(row payout.BadRow) BatchPayoutItem {
	values := row.Fields.Values()
	item := BatchPayoutItem{
		Position: row.Position, Line: row.Line, Reference: resource.OptionalText(values[0]),
		CustomerID: resource.OptionalText(values[1]), ToAddress: values[3], Memo: resource.OptionalText(values[4]),
		Amount: values[5], Status: payout.RowUnreadable,
	}
	if mintID, err := strconv.Atoi(values[2]); err == nil && mintID > 0 {
		item.MintID = &mintID
	}
	if len(row.Problems) > 0 {
		item.Reason = &row.Problems[0].Message
	}
	return item
}

// showBatchItem shows a row that can be read, with what became of it.
func showBatchItem(i payout.Item) BatchPayoutItem {
	item := BatchPayoutItem{
		Row: &i.Number, Position: i.Position, Line: i.Line, Reference: resource.OptionalText(i.Reference),
		CustomerID: resource.OptionalText(i.CustomerID), MintID: &i.MintID, ToAddress: string(i.ToAddress),
		Memo: resource.OptionalText(i.Memo), Amount: i.Amount.String(), Included: i.IsIncluded,
		WithdrawalID: resource.OptionalText(i.WithdrawalID), TxHash: i.TxHash,
		Status: i.State(), Reason: resource.OptionalText(i.Reason()),
	}
	if i.NetworkFee != nil {
		item.NetworkFee = new(i.NetworkFee.String())
	}
	return item
}

func (a *api) exportBatchItems(c *call) (name string, write func(io.Writer) error, err error) {
	b, err := a.conf.Payouts.ByID(c.Context(), c.Caller.OrgID, c.PathParam("batchPayoutId"))
	return b.ID + "-items", func(w io.Writer) error {
		return a.conf.Payouts.WriteCSV(c.Context(), b.OrgID, b.ID, w)
	}, err
}

func (a *api) getBatchProof(c *call) (shown BatchPayoutProof, err error) {
	row, err := strconv.Atoi(c.PathParam("row"))
	if err != nil || strconv.Itoa(row) != c.PathParam("row") {
		row = 0 // no batch has it
	}
	p, err := a.conf.Payouts.RowProof(c.Context(), c.Caller.OrgID, c.PathParam("batchPayoutId"), row)
	if err != nil {
		return shown, err
	}
	h := p.Header
	shown = BatchPayoutProof{
		ContentHash: p.ContentHash.String(),
		Header: BatchPayoutProofHeader{
			OrgID: h.OrgID, BatchID: h.BatchID, Mode: string(h.Mode), MadeBy: h.MadeBy, Rows: h.Rows,
			Included: h.Included, Root: h.Root.String(),
		},
		Row: BatchPayoutProofRow{
			Row: p.Row.Number, Salt: base64.StdEncoding.EncodeToString(p.Row.Salt), MintID: p.Row.MintID,
			Chain: string(p.Row.Chain), Contract: string(p.Row.Contract), ToAddress: string(p.Row.ToAddress),
			Amount: p.Row.Amount.String(), Memo: p.Row.Memo, CustomerID: p.Row.CustomerID,
			Reference: p.Row.Reference, Included: p.Row.IsIncluded,
		},
	}
	for _, t := range h.Totals {
		shown.Header.Totals = append(shown.Header.Totals, BatchPayoutProofTotal{
			MintID: t.MintID, Amount: t.Amount.String(),
		})
	}
	for _, step := range p.Path {
		shown.Path = append(shown.Path, step.String())
	}
	return shown, nil
}

func draftExample() BatchPayoutReport {
	b := resource.ExampleBatchPayout
	b.Status, b.SubmittedAt, b.Approvals.Required, b.EstimatedNetworkFeeUSD = "DRAFT", nil, 0, new("1.20")
	return BatchPayoutReport{BatchPayout: b}
}

func submittedExample() webhook.BatchPayout {
	b := resource.ExampleBatchPayout
	b.Status = "VALIDATING"
	return b
}

func cancelledBatchExample() webhook.BatchPayout {
	b := resource.ExampleBatchPayout
	b.Status, b.EndedAt = "CANCELLED", &resource.ExampleAt
	return b
}

func processingBatchExample() webhook.BatchPayout {
	b := resource.ExampleBatchPayout
	b.Status, b.Approvals.Received, b.ApprovedAt = "PROCESSING", b.Approvals.Required, &resource.ExampleAt
	b.Counts = webhook.BatchPayoutCounts{Waiting: 20, Processing: 30, Paid: 69, Unpaid: 1}
	return b
}

func pausedBatchExample() webhook.BatchPayout {
	b := processingBatchExample()
	b.Paused, b.PausedAt, b.Counts.Waiting, b.Counts.Processing = true, &resource.ExampleAt, 45, 5
	return b
}

func retryExample() webhook.BatchPayout {
	b := draftExample().BatchPayout
	b.RetryOf, b.IdempotencyKey = new("bp_01J9ZW3M8Q4S5T6V7W8X9YZABD"), new("salaries-2026-01-again")
	b.ItemCount, b.ValidCount, b.Counts.Waiting = 1, 1, 1
	b.Totals = webhook.List[webhook.BatchPayoutTotal]{{MintID: 1, Amount: "5000000", USDValue: new("5.00")}}
	return b
}

var (
	exampleBatchItem = BatchPayoutItem{
		Row: new(7), Position: 7, Line: 8, Reference: new("invoice-4711"), MintID: new(1),
		ToAddress: resource.ExampleDestination, Amount: "5000000", Included: true, Status: "COMPLETED",
		WithdrawalID: new(resource.ExampleWithdrawal.WithdrawalID), TxHash: new(resource.ExampleHash),
		NetworkFee: new("420000000000000"),
	}

	exampleBatchProof = BatchPayoutProof{
		ContentHash: resource.ExampleBatchPayout.ContentHash,
		Header: BatchPayoutProofHeader{
			OrgID: resource.ExampleOrganizationID, BatchID: resource.ExampleBatchPayout.BatchPayoutID, Mode: "STRICT",
			MadeBy: "API_KEY " + resource.ExampleOrganizationID, Rows: 120, Included: 120,
			Totals: webhook.List[BatchPayoutProofTotal]{{MintID: 1, Amount: "600000000"}},
			Root:   "sha256:1f1a0e6f1c3b2a4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5",
		},
		Row: BatchPayoutProofRow{
			Row: 7, Salt: "3q2+796tvu/erb7v3q2+7w==", MintID: 1, Chain: "ETHEREUM",
			Contract: resource.ExampleContract, ToAddress: resource.ExampleDestination, Amount: "5000000",
			Reference: "invoice-4711", Included: true,
		},
		Path: webhook.List[string]{"sha256:9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8c"},
	}
)
