package api

import (
	"encoding/json"
	"time"

	"github.com/cofferpay/coffer/webhook"
)

// Examples of the published document. They are values of the types of the answers, so an example
// cannot have a field that an answer does not have.

const (
	exampleWithdrawalID = "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	exampleRequestID    = "req_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	exampleHash         = "0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b"
	exampleHolder       = "0x71C7656EC7ab88b098defB751B7401B5f6d8976F"
	exampleDestination  = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
)

var (
	exampleAt           = webhook.At(time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC))
	exampleContract     = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
	exampleEmbeddedMint = webhook.Mint{
		ID: 1, Symbol: "USDC", Name: "USD Coin", Chain: "ETHEREUM", Decimals: 6, ContractAddress: &exampleContract,
	}

	exampleMint = Mint{
		ID: 1, Decimals: 6, Symbol: "USDC", Name: "USD Coin", Chain: "ETHEREUM", CAIP2: pointerTo("eip155:1"),
		ContractAddress: &exampleContract, Kind: "TOKEN", Network: "MAINNET", DepositEnabled: true,
		WithdrawEnabled:  true,
		MinDepositAmount: "1000000", MinWithdrawAmount: "1000000", ConfirmationsRequired: 64, Finality: "FINALIZED",
		USDPrice: pointerTo("0.9998"), USDPriceAt: &exampleAt,
	}
	exampleAddress = DepositAddress{
		CustomerID: "user_42", Chain: "ETHEREUM", Address: exampleHolder, MintID: 1, MinDepositAmount: "1000000",
		PaymentURI: "ethereum:" + exampleContract + "@1/transfer?address=" + exampleHolder,
	}
	exampleProductAddress = ProductAddress{
		Product: "CHECKOUT", Chain: "ETHEREUM", Address: exampleHolder, MintID: 1, MinDepositAmount: "1000000",
		PaymentURI: "ethereum:" + exampleContract + "@1/transfer?address=" + exampleHolder,
	}
	exampleDeposit = webhook.Deposit{
		DepositID: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC", CustomerID: pointerTo("user_42"),
		CustomerEmail: pointerTo("a@example.com"),
		MintID:        pointerTo(1), Mint: &exampleEmbeddedMint, Chain: "ETHEREUM", Amount: "5000000",
		AmountDecimal: pointerTo("5"), USDValue: pointerTo("5.00"),
		Address: exampleHolder, FromAddresses: webhook.List[string]{exampleDestination}, TxHash: exampleHash,
		LogIndex:    pointerTo(int64(3)),
		BlockNumber: pointerTo(int64(24356789)), Confirmations: 66, ConfirmationsRequired: 64, Source: "EXTERNAL",
		Status: "CREDITED", ChainStatus: "FINALIZED", Screening: webhook.Screening{Status: "NOT_CONFIGURED"},
		DetectedAt: &exampleAt, ConfirmedAt: &exampleAt, CreditedAt: &exampleAt, CreatedAt: exampleAt,
	}
	exampleWithdrawal = webhook.Withdrawal{
		WithdrawalID: exampleWithdrawalID, Type: webhook.OfCustomer, IdempotencyKey: pointerTo("payout-991"),
		CustomerID: pointerTo("user_42"), MintID: 1, Mint: exampleEmbeddedMint,
		Amount: "5000000", AmountDecimal: "5", USDValue: pointerTo("5.00"), ToAddress: exampleDestination,
		NetworkFeeMintID: pointerTo(7),
		FeeMode:          "ORGANIZATION", Status: "AWAITING_APPROVAL", ChainStatus: "NONE", RequiresApproval: true,
		ApprovalReasons: webhook.List[string]{"USD_THRESHOLD"}, Approvals: webhook.Approvals{Required: 1},
		Screening: webhook.WithdrawalScreening{Status: "NOT_CONFIGURED"}, Reference: pointerTo("order-77"),
		CreatedAt: exampleAt,
	}
	exampleCancelled = func() webhook.Withdrawal {
		w := exampleWithdrawal
		w.Status = "CANCELLED"
		return w
	}()
	exampleEstimate = Estimate{
		NetworkFee: "5000", NetworkFeeMintID: pointerTo(7), NetworkFeeUSD: pointerTo("0.0125"),
		MaxAmount: pointerTo("5000000"), ExpiresAt: exampleAt,
	}
	exampleHold = GateResult{
		Gate: "USD_THRESHOLD", Result: "HOLD", Reason: "USD_THRESHOLD", USDValue: "12000.00", Threshold: "10000.00",
		Price: "0.9998", PriceAt: "2026-01-31T11:59:48Z", PriceAgeSeconds: "12", PriceSource: "fixed",
	}
	examplePreview = Preview{
		WouldBe: "AWAITING_APPROVAL", ApprovalReasons: webhook.List[string]{"USD_THRESHOLD"},
		Gates: webhook.List[GateResult]{
			{Gate: "ADDRESS", Result: "PASS"},
			{Gate: "RISK", Result: "NOT_CONFIGURED"},
			exampleHold,
			{Gate: "LIQUIDITY", Result: "PASS", Liquid: "900000000"},
		},
		NetworkFee: pointerTo("5000"), NetworkFeeMintID: pointerTo(7),
	}
	exampleDecision = Decision{
		DecidedAt: exampleAt, Act: "REQUESTED",
		Actor: &webhook.Actor{Type: "API_KEY", ID: "org_01J9ZW3M8Q4S5T6V7W8X9YZABC"}, Status: "AWAITING_APPROVAL",
		ApprovalReasons: webhook.List[string]{"USD_THRESHOLD"}, Gates: examplePreview.Gates,
	}
	exampleTransfer = webhook.Transfer{
		TransferID: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC", IdempotencyKey: "charge-991", MintID: 1, Mint: exampleEmbeddedMint,
		Amount: "5000000", AmountDecimal: "5", From: webhook.Party{CustomerID: pointerTo("user_42")},
		To:        webhook.Party{Product: pointerTo("CUSTODIAL")},
		Reference: pointerTo("order-77"), CreatedAt: exampleAt,
	}
	exampleProductBalance = ProductBalance{
		Product: "CUSTODIAL", MintID: 1, Symbol: "USDC", Chain: "ETHEREUM", Available: "5000000", Pending: "0",
		PendingDeposit: "0", Total: "5000000",
		USDValue: pointerTo("5.00"), OwedToCustomers: pointerTo("6000000"),
	}
	exampleEntry = Entry{
		EntryID: "le_4711_c", Account: webhook.Party{Product: pointerTo("CUSTODIAL")}, Balance: "AVAILABLE", MintID: 1,
		Symbol: "USDC", Chain: "ETHEREUM",
		Direction: "CREDIT", Amount: "5000000", AmountDecimal: "5", Cause: "TRANSFER",
		ResourceID: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC", CreatedAt: exampleAt,
	}
	exampleCustomer = Customer{
		CustomerID: "user_42", CustomerEmail: pointerTo("a@example.com"), Status: "ACTIVE",
		Metadata: webhook.Metadata{"tier": "gold"}, CreatedAt: exampleAt, UpdatedAt: exampleAt,
	}
	exampleFrozen = func() Customer {
		frozen := exampleCustomer
		frozen.Status = "FROZEN"
		return frozen
	}()
	exampleBalance = Balance{
		MintID: 1, Symbol: "USDC", Chain: "ETHEREUM", Available: "5000000", PendingDeposit: "0",
		PendingWithdraw: "1000000",
		InSwap:          "0", Held: "0", Total: "6000000", USDValue: pointerTo("6.00"),
	}
	exampleEndpoint = Endpoint{
		EndpointID: "we_01J9ZW3M8Q4S5T6V7W8X9YZABC", URL: "https://example.com/hooks/coffer", Events: []string{},
		Description: "production", Status: "ENABLED", APIVersion: "2026-01-31", CreatedAt: exampleAt,
		UpdatedAt: exampleAt,
	}
	exampleRotated = RotatedSecret{
		Endpoint: exampleEndpoint, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		FormerSecretUntil: webhook.At(exampleAt.AddDate(0, 0, 1)),
	}
	exampleAttempt = DeliveryAttempt{
		EventID: "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC", Type: "CUSTOMER_DEPOSIT", Attempt: 2, Status: "FAILED",
		DeliveryStatus: "PENDING", NextAttemptAt: &exampleAt,
		Request: DeliveryRequest{
			URL:  "https://example.com/hooks/coffer",
			Body: pointerTo(`{"id":"evt_01J9ZW3M8Q4S5T6V7W8X9YZABC","type":"CUSTOMER_DEPOSIT"}`),
			Headers: map[string]string{
				"webhook-id":        "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC",
				"webhook-timestamp": "1769860805", "webhook-attempt": "2",
			},
		},
		Response:   &DeliveryResponse{StatusCode: 502, Body: "upstream is down"},
		Error:      pointerTo("the receiver answered 502 bad gateway: only 2xx is success"),
		DurationMs: 41, CreatedAt: exampleAt,
	}
	exampleJob = WebhookJob{
		JobID: "wj_01J9ZW3M8Q4S5T6V7W8X9YZABC", Kind: "RECOVER", Status: "RUNNING",
		EndpointID: pointerTo("we_01J9ZW3M8Q4S5T6V7W8X9YZABC"),
		Since:      &exampleAt, OnlyFailed: true, Examined: 1200, Queued: 311, Pending: 290, Delivered: 21,
		CreatedAt: exampleAt,
	}
	exampleResend = WebhookJob{
		JobID: "wj_01J9ZW3M8Q4S5T6V7W8X9YZABC", Kind: "RESEND", Status: "RUNNING",
		EventID: pointerTo("evt_01J9ZW3M8Q4S5T6V7W8X9YZABC"), CreatedAt: exampleAt,
	}
	exampleEndpointSecret = EndpointWithSecret{
		Endpoint: exampleEndpoint, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}
	exampleEnvelope = webhook.Envelope{
		ID: "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC", Type: webhook.CustomerDeposit, Timestamp: exampleAt,
		APIVersion:  "2026-01-31",
		Environment: webhook.Live, OrganizationID: "org_01J9ZW3M8Q4S5T6V7W8X9YZABC", Sequence: 10422,
		Data: mustJSON(exampleDeposit),
	}

	requestExamples = map[string]any{
		"createDepositAddress":             DepositRequest{MintID: 1, CustomerID: "user_42"},
		"createOrganizationDepositAddress": ProductDepositRequest{MintID: 1, Product: "CHECKOUT"},
		"createWithdrawal": WithdrawRequest{
			MintID: 1, CustomerID: "user_42", Amount: "5000000", ToAddress: exampleDestination,
			IdempotencyKey: pointerTo("payout-991"),
		},
		"updateCustomer":   CustomerChange{CustomerEmail: "b@example.com"},
		"unfreezeCustomer": UnfreezeRequest{},
		"freezeCustomer":   FreezeRequest{Reason: pointerTo("reported by support")},
		"previewWithdrawal": WithdrawRequest{
			MintID: 1, CustomerID: "user_42", Amount: "12000000000", ToAddress: exampleDestination,
		},
		"estimateWithdrawal": EstimateRequest{MintID: 1, CustomerID: pointerTo("user_42")},
		"createTransfer": TransferRequest{
			MintID: 1, Amount: "5000000", From: TransferParty{CustomerID: pointerTo("user_42")},
			To:             TransferParty{Product: pointerTo("CUSTODIAL")},
			IdempotencyKey: pointerTo("charge-991"),
		},
		"createWebhookEndpoint":  EndpointRequest{URL: "https://example.com/hooks/coffer"},
		"testWebhookEndpoint":    TestRequest{Type: "CUSTOMER_DEPOSIT"},
		"recoverWebhookEndpoint": RecoverRequest{Since: "2026-01-31T12:00:00.000Z"},
		"resendEvent":            ResendRequest{EndpointID: pointerTo("we_01J9ZW3M8Q4S5T6V7W8X9YZABC")},
		"updateWebhookEndpoint":  EndpointChange{Status: pointerTo("PAUSED")},
	}
)

func examplePage[T any](item T) Page[T] { return Page[T]{Data: []T{item}} }

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("api: cannot encode an example: " + err.Error())
	}
	return raw
}
