package webhook

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

func ptr[T any](v T) *T { return &v }

var (
	at   = At(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC))
	usdc = Mint{
		ID: 1, Symbol: "USDC", Name: "USD Coin", Chain: "ETHEREUM", Decimals: 6,
		ContractAddress: ptr("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"),
	}
	eth = Mint{ID: 7, Symbol: "ETH", Name: "Ether", Chain: "ETHEREUM", Decimals: 18}
)

func deposit() Deposit {
	return Deposit{
		DepositID: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC", CustomerID: ptr("user_42"), CustomerEmail: ptr("a@example.com"),
		MintID: ptr(1), Mint: &usdc, Chain: "ETHEREUM", Amount: "5000000", AmountDecimal: ptr("5"), USDValue: ptr("5.00"),
		Address: "0x85", FromAddresses: List[string]{"0x9a"}, TxHash: "0x4k", LogIndex: ptr(int64(3)),
		BlockNumber: ptr(int64(312345678)), Confirmations: 1, ConfirmationsRequired: 1,
		Source: "EXTERNAL", Status: "CREDITED", ChainStatus: "FINALIZED",
		Screening: Screening{
			Status: "PASSED", Provider: ptr("CHAINALYSIS"), Severity: ptr("LOW"), Score: ptr(12),
			ScreenedAt: &at, Reference: ptr("r-1"),
		},
		DetectedAt: &at, ConfirmedAt: &at, CreditedAt: &at, CreatedAt: at,
	}
}

func flagged() Deposit {
	d := deposit()
	d.Status, d.IsFlagged, d.RiskOfFunds, d.CreditedAt = "FLAGGED", true, ptr("SEVERE"), nil
	d.FlagReason = &FlagReason{
		Code: "SEVERITY_ABOVE_THRESHOLD", Score: ptr(98), Severity: ptr("SEVERE"),
		Entity: ptr("OFAC SDN"), Categories: List[string]{"SANCTIONS"}, Provider: ptr("TRM"),
	}
	return d
}

func rejected() Deposit {
	d := flagged()
	d.Status = "REJECTED"
	d.FreshScreening = &FreshScreening{
		Severity: "HIGH", Score: ptr(81), Entity: ptr("OFAC SDN"), Categories: List[string]{"SANCTIONS"},
		Provider: "TRM", Reference: ptr("r-2"), ScreenedAt: at,
	}
	d.Resolution = &Resolution{
		Decision: "REJECTED", Note: ptr("sent back"), DecidedAt: at,
		DecidedBy: Actor{Type: "USER", ID: "usr_1", Name: ptr("Ann")},
		ToAddress: ptr("0x9a"), TxHash: ptr("0x77"), Amount: ptr("4990000"), NetworkFee: ptr("10000"),
	}
	d.ResolutionAttempts = List[ResolutionAttempt]{{At: at, Action: "REJECT", Reason: "INSUFFICIENT_GAS", Message: "the treasury was short of gas"}}
	return d
}

func reversed() Deposit {
	d := deposit()
	d.Status, d.ChainStatus, d.Confirmations = "REVERSED", "REORGED", 0
	d.Reversal = &Reversal{ReversedAt: at, TakenBack: "3000000", Loss: "2000000"}
	return d
}

func organizations() Deposit {
	d := deposit()
	d.CustomerID, d.CustomerEmail, d.Product = nil, nil, ptr("CHECKOUT")
	return d
}

func unsupported() Deposit {
	return Deposit{
		DepositID: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC", CustomerID: ptr("user_42"), Chain: "ETHEREUM", Amount: "77",
		Address: "0x85", FromAddresses: List[string]{"0x9a"}, TxHash: "0x4k", Source: "EXTERNAL",
		Status: "UNSUPPORTED", ChainStatus: "FINALIZED", Screening: Screening{Status: "SKIPPED"},
		ContractAddress: ptr("0xdead"), UnsupportedReason: ptr("MINT_UNKNOWN"), CreatedAt: at,
	}
}

func swap() SwapSummary {
	return SwapSummary{
		CustomerSwapID: "cs_01J", IdempotencyKey: "swap-7781", FromMint: eth, ToMint: usdc,
		AmountIn: "1000000000", EstimatedAmountOut: "149250000", AmountOut: ptr("149301122"),
		OriginTxHash: ptr("0x1"), DestinationTxHash: ptr("0x2"), CreatedAt: at,
	}
}

func held() Withdrawal {
	return Withdrawal{
		WithdrawalID: "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC", Type: OfCustomer, IdempotencyKey: ptr("payout-991"), CustomerID: ptr("user_42"),
		MintID: 1, Mint: usdc, Amount: "5000000", AmountDecimal: "5", USDValue: ptr("5.00"), ToAddress: "0x9a",
		NetworkFeeMintID: ptr(7), FeeMode: "ORGANIZATION", Status: "AWAITING_APPROVAL", ChainStatus: "NONE",
		RequiresApproval: true, ApprovalReasons: List[string]{"USD_THRESHOLD"}, Approvals: Approvals{Required: 1},
		Screening: WithdrawalScreening{Status: "PASSED", Severity: ptr("LOW"), Provider: ptr("TRM")}, CreatedAt: at,
	}
}

func broadcast() Withdrawal {
	w := held()
	w.Status, w.ChainStatus, w.TxHash = "BROADCAST", "PENDING", ptr("0x55")
	w.ReplacedTxHashes = List[string]{"0x54"}
	w.Reference, w.Metadata = ptr("order & 77"), Metadata{"tier": "<gold>"}
	w.ApprovedAt, w.BroadcastAt = &at, &at
	return w
}

// Rules of the contract's payloads: null members are present, isFlagged, riskOfFunds and swap
// always; a list is never null; a time has milliseconds.
func TestPayloadsPrintTheContractsJSON(t *testing.T) {
	t.Parallel()
	credit := deposit()
	credit.Source, credit.Swap = "CUSTOMER_SWAP", ptr(swap())
	failed := swap()
	failed.AmountOut, failed.DestinationTxHash = nil, nil
	data, err := json.Marshal(SwapFailed{CustomerID: "user_42", Swap: failed})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"deposit":             deposit(),
		"deposit_flagged":     flagged(),
		"deposit_rejected":    rejected(),
		"deposit_reversed":    reversed(),
		"deposit_own":         organizations(),
		"deposit_unsupported": unsupported(),
		"deposit_swap":        credit,
		"withdrawal_held":     held(),
		"withdrawal":          broadcast(),
		"swap_failed": Envelope{
			ID: "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC", Type: CustomerSwapFailed,
			Timestamp:  At(time.Date(2026, 1, 31, 13, 0, 9, 412_999_999, time.FixedZone("", 3600))),
			APIVersion: "2026-01-31", Environment: Live, OrganizationID: "org_1", Sequence: 10422, Data: data,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compact, err := plain(value)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, compact, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			golden := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("got %s, want %s", got.Bytes(), want)
			}
		})
	}
}

func keys(t *testing.T, v any) []string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Rule DEP-12.
func TestEmptyPayloadsStillShowEveryField(t *testing.T) {
	t.Parallel()
	if got, want := keys(t, Deposit{}), keys(t, rejected()); !slices.Equal(got, want) {
		t.Errorf("deposit: got %v, want %v", got, want)
	}
	if got, want := keys(t, Withdrawal{}), keys(t, broadcast()); !slices.Equal(got, want) {
		t.Errorf("withdrawal: got %v, want %v", got, want)
	}
	for _, name := range []string{"isFlagged", "riskOfFunds", "swap"} {
		if !slices.Contains(keys(t, Deposit{}), name) {
			t.Errorf("deposit: got no %s, want it always", name)
		}
	}
}

func TestSwapSummaryHasNeitherStatusNorFailureReason(t *testing.T) {
	t.Parallel()
	for _, name := range keys(t, swap()) {
		if name == "status" || name == "failureReason" || name == "swapId" {
			t.Errorf("got %v, want it absent", name)
		}
	}
}

func TestPayloadsReadWhatTheyPrint(t *testing.T) {
	t.Parallel()
	first, err := json.Marshal(rejected())
	if err != nil {
		t.Fatal(err)
	}
	var back Deposit
	if err := json.Unmarshal(first, &back); err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(back)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("got %s, want %s", second, first)
	}
	var bad Time
	for _, text := range []string{`5`, `""`, `"yesterday"`, `"`, `null`} {
		if err := bad.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s: got %v, want an error", text, bad)
		}
	}
}
