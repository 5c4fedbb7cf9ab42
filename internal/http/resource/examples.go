package resource

import (
	"encoding/json"
	"time"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/webhook"
)

// Examples of the published documents. They are values of the types of the answers, so an example
// cannot have a field that an answer does not have.
const (
	exampleWithdrawalID = "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"

	// ExampleSwapID is the id of a customer swap.
	ExampleSwapID = "cs_01J9ZW3M8Q4S5T6V7W8X9YZABC"

	ExampleHash = "0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b"

	ExampleHolder = "0x71C7656EC7ab88b098defB751B7401B5f6d8976F"

	ExampleDestination = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
)

var (
	ExampleAt = webhook.At(time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC))

	ExampleContract = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"

	ExampleEmbeddedMint = webhook.Mint{
		ID: 1, Symbol: "USDC", Name: "USD Coin", Chain: "ETHEREUM", Decimals: 6, ContractAddress: &ExampleContract,
	}

	ExampleDeposit = webhook.Deposit{
		DepositID: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC", CustomerID: new("user_42"),
		CustomerEmail: new("a@example.com"),
		MintID:        new(1), Mint: &ExampleEmbeddedMint, Chain: "ETHEREUM", Amount: "5000000",
		AmountDecimal: new("5"), USDValue: new("5.00"),
		Address: ExampleHolder, FromAddresses: webhook.List[string]{ExampleDestination}, TxHash: ExampleHash,
		LogIndex:    new(int64(3)),
		BlockNumber: new(int64(24356789)), Confirmations: 66, ConfirmationsRequired: 64, Source: "EXTERNAL",
		Status: "CREDITED", ChainStatus: "FINALIZED", Screening: webhook.Screening{Status: "NOT_CONFIGURED"},
		DetectedAt: &ExampleAt, ConfirmedAt: &ExampleAt, CreditedAt: &ExampleAt, CreatedAt: ExampleAt,
	}

	ExampleWithdrawal = webhook.Withdrawal{
		WithdrawalID: exampleWithdrawalID, Type: webhook.OfCustomer, IdempotencyKey: new("payout-991"),
		CustomerID: new("user_42"), MintID: 1, Mint: ExampleEmbeddedMint,
		Amount: "5000000", AmountDecimal: "5", USDValue: new("5.00"), ToAddress: ExampleDestination,
		NetworkFeeMintID: new(7),
		FeeMode:          "ORGANIZATION", Status: "AWAITING_APPROVAL", ChainStatus: "NONE", RequiresApproval: true,
		ApprovalReasons: webhook.List[string]{"USD_THRESHOLD"}, Approvals: webhook.Approvals{Required: 1},
		Screening: webhook.WithdrawalScreening{Status: "NOT_CONFIGURED"}, Reference: new("order-77"),
		CreatedAt: ExampleAt,
	}
)

// ExampleSwap is a customer swap that was just made.
var ExampleSwap = webhook.CustomerSwap{
	SwapID: ExampleSwapID, IdempotencyKey: "swap-7781", CustomerID: "user_42", FromMintID: 7, ToMintID: 1,
	AmountIn: "1000000000", EstimatedAmountOut: "149250000", MinAmountOut: "147757500", Status: "PENDING",
	FeeAmount: "2500000", FeeBps: 25, USDValue: new("149.80"), EstimatedTimeSeconds: new(22), RefundStatus: "NONE",
	Provider: "ONE_CLICK", CreatedAt: ExampleAt, UpdatedAt: ExampleAt,
}

// ExampleWhitelistedID is the id of an entry of a whitelist.
const ExampleWhitelistedID = "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"

// ExampleOrganizationSwap is an organization swap that was just made.
var ExampleOrganizationSwap = webhook.OrganizationSwap{
	SwapID: "os_01J9ZW3M8Q4S5T6V7W8X9YZABC", Type: webhook.OfOrganization, IdempotencyKey: "rebalance-12",
	Product: "CUSTODIAL", FromMintID: 7, ToMintID: 1, AmountIn: "1000000000", EstimatedAmountOut: "149250000",
	MinAmountOut: "147757500", WhitelistedAddressID: ExampleWhitelistedID, ToAddress: ExampleDestination,
	Status: "PENDING", USDValue: new("149.80"), EstimatedTimeSeconds: new(22), RefundStatus: "NONE",
	Provider: new("ONE_CLICK"), CreatedAt: ExampleAt, UpdatedAt: ExampleAt,
}

// ExampleDepositSwap is a deposit swap that was just made.
var ExampleDepositSwap = webhook.DepositSwap{
	DepositSwapID: "ds_01J9ZW3M8Q4S5T6V7W8X9YZABC", IdempotencyKey: new("topup-55"), CustomerID: "user_42",
	OriginTokenID: "ethereum:0x6b175474e89094c44da98b954eedeac495271d0f", OriginChain: "ETHEREUM",
	OriginSymbol: "DAI", OriginDecimals: 18, ToMintID: 1, DepositAddress: ExampleHolder,
	AmountIn: new("25000000000000000000"), EstimatedAmountOut: "24930000", MinAmountOut: "24680000",
	Mode: "FLEXIBLE", ExpiresAt: webhook.At(ExampleAt.Add(time.Hour)), RefundAddress: ExampleDestination,
	Status: "AWAITING_DEPOSIT", Provider: "ONE_CLICK", CreatedAt: ExampleAt, UpdatedAt: ExampleAt,
}

// ExampleProduct is a product for sale.
var ExampleProduct = webhook.Product{
	ProductID: "prod_01J9ZW3M8Q4S5T6V7W8X9YZABC", Name: "Gold plan", Description: new("1 month"),
	ImageURL: new("https://shop.example.com/gold.png"), Status: "ACTIVE", PriceType: "FIXED", Currency: "USD",
	Price: new("49.99"), AcceptedMintIDs: webhook.List[int]{1, 2}, SettlementMintID: nil, MaxQuantity: 10,
	UnderpaymentToleranceBps: 50, OverpaymentPolicy: "CREDIT", LatePaymentPolicy: "ACCEPT_IF_WITHIN_TOLERANCE",
	SuccessURL: new("https://shop.example.com/thanks"), CancelURL: new("https://shop.example.com/cart"),
	CreatedAt: ExampleAt, UpdatedAt: ExampleAt,
}

// ExampleLink is a payment link that sells a product.
var ExampleLink = webhook.PaymentLink{
	LinkID: "plink_01J9ZW3M8Q4S5T6V7W8X9YZABC", URL: new("https://pay.example.com/p/gold-2026"), Slug: "gold-2026",
	Status:       "ACTIVE",
	LineItems:    webhook.List[webhook.LinkItem]{{ProductID: ExampleProduct.ProductID, QuantityMax: new(5)}},
	MaxCompleted: new(100), CompletedCount: 12, IdempotencyKey: new("link-gold"), CreatedAt: ExampleAt,
	UpdatedAt: ExampleAt,
}

// ExampleCheckout is a checkout that can be paid in one of two mints so far.
var ExampleCheckout = webhook.Checkout{
	CheckoutID: "co_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	URL:        new("https://pay.example.com/c/co_01J9ZW3M8Q4S5T6V7W8X9YZABC#k=3q2-7w"),
	Status:     "OPEN", Exception: "NONE",
	LineItems: webhook.List[webhook.LineItem]{{
		ProductID: new(ExampleProduct.ProductID), Name: "Gold plan", UnitPrice: "49.99", Quantity: 1,
	}},
	Currency: "USD", AmountDue: "49.99", AmountPaid: "0.00", AmountPaidUSD: new("0.00"), AmountRemaining: "49.99",
	AmountOverpaid: "0.00", AcceptedMintIDs: webhook.List[int]{1, 2},
	PaymentOptions: webhook.List[webhook.PaymentOption]{
		{
			MintID: 1, Address: new(ExampleHolder), Amount: new("49990000"), Rate: new("1.00"),
			RateExpiresAt: new(webhook.At(ExampleAt.Add(30 * time.Minute))),
			PaymentURI: new("ethereum:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48@1/transfer?address=" + ExampleHolder +
				"&uint256=49990000"),
			AddressProof: &webhook.AddressProof{
				Family: "EVM", Purpose: webhook.CheckoutPurpose, Path: "m/44'/60'/1'/4/9",
				Signature: "cq9pMNrGRyUWvtCVCNWJ93AjDzKTDSzdz8Uxjmj9q2IvtLiKTTn3gY6JaKsEQnWTDBJOZJrHBI7vCR0nTdaBAQ==",
			},
		},
		{MintID: 2},
	},
	Reference: new("order-77"), IdempotencyKey: new("checkout-77"),
	SuccessURL: new("https://shop.example.com/thanks"), CancelURL: new("https://shop.example.com/cart"),
	ExpiresAt: webhook.At(ExampleAt.Add(30 * time.Minute)), CreatedAt: ExampleAt, UpdatedAt: ExampleAt,
}

// ExampleRefund is a refund that waits for the address of its payer, in the answer that has its page.
var ExampleRefund = webhook.Refund{
	RefundID: "ref_01J9ZW3M8Q4S5T6V7W8X9YZABC", CheckoutID: ExampleCheckout.CheckoutID, Status: "AWAITING_ADDRESS",
	Kind: "OVERPAID", MintID: 1, Symbol: "USDC", Chain: "ETHEREUM", Amount: "10010000", FeeMode: "ORGANIZATION",
	ClaimURL:       new("https://pay.example.com/r/ref_01J9ZW3M8Q4S5T6V7W8X9YZABC#k=Zk1rV2b0c9QxJmTn4sLuEw"),
	Parts:          webhook.List[webhook.RefundPart]{{DepositID: ExampleDeposit.DepositID, Amount: "10010000"}},
	IdempotencyKey: new("refund-77"), CreatedAt: ExampleAt, UpdatedAt: ExampleAt,
	ExpiresAt: webhook.At(ExampleAt.AddDate(0, 0, 30)),
}

// MustJSON encodes a part of an example.
func MustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("api: cannot encode an example: " + err.Error())
	}
	return raw
}

var (
	ExampleFlagged = func() webhook.Deposit {
		d := ExampleDeposit
		d.Status, d.IsFlagged, d.RiskOfFunds, d.CreditedAt, d.ReturnAddressRisk = "FLAGGED", true, new("SEVERE"),
			nil, new("NONE")
		d.Screening = webhook.Screening{
			Status: "FLAGGED", Provider: new("TRM"), Severity: new("SEVERE"), Score: new(98),
			ScreenedAt: &ExampleAt,
		}
		d.FlagReason = &webhook.FlagReason{
			Code: "SEVERITY_ABOVE_THRESHOLD", Score: new(98), Severity: new("SEVERE"),
			Entity:     new("a mixer"),
			Categories: webhook.List[string]{"MIXING"}, Provider: new("TRM"),
		}
		return d
	}()

	ExampleApprovedDeposit = func() webhook.Deposit {
		d := ExampleFlagged
		d.Status, d.CreditedAt = "CREDITED", &ExampleAt
		d.Resolution = &webhook.Resolution{
			Decision: "APPROVED", Note: new("The source of funds is known."), DecidedAt: ExampleAt,
			DecidedBy: webhook.Actor{Type: "API_KEY", ID: ExampleOrganizationID},
		}
		return d
	}()

	ExampleRejecting = func() webhook.Deposit {
		d := ExampleFlagged
		d.Status = "REJECTING"
		d.Resolution = &webhook.Resolution{
			Decision: "REJECTED", DecidedAt: ExampleAt,
			DecidedBy: webhook.Actor{Type: "API_KEY", ID: ExampleOrganizationID},
			ToAddress: new(ExampleDestination), Amount: new("5000000"),
		}
		return d
	}()
)

const exampleKeyID = "key_01J9ZW3M8Q4S5T6V7W8X9YZABC"

// ExampleScopedKey is an API key.
var ExampleScopedKey = ScopedKey{
	APIKeyID: exampleKeyID, Name: "reporting", Scope: string(identity.ScopeRead), Status: string(apikey.Active),
	LastUsedAt: &ExampleAt, CreatedAt: ExampleAt,
}

const (
	ExampleOrganizationID = "org_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	ExampleKey            = "ck_a3Jl8sPq0TzVbN5mXyW2cR7uKd1EoG4hFi6LjM9nQv0"
)
