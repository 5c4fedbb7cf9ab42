// Drawn from internal/api/openapi.json by make generate. Do not edit.

import { type CallOptions, Connection, type Options, each, segment } from "./http.js";

/** The codes of refusals. Codes are added without notice. */
export type Code =
  | "AMOUNT_BELOW_MINIMUM"
  | "BODY_TOO_LARGE"
  | "CUSTOMER_FROZEN"
  | "DEPOSITS_SUSPENDED"
  | "DEPOSIT_NOT_FLAGGED"
  | "DESTINATION_NOT_ALLOWED"
  | "FEATURE_DISABLED"
  | "IDEMPOTENCY_CONFLICT"
  | "IDEMPOTENCY_KEY_MISMATCH"
  | "INSUFFICIENT_BALANCE"
  | "INSUFFICIENT_GAS"
  | "INTERNAL"
  | "INVALID_ADDRESS"
  | "INVALID_AMOUNT"
  | "INVALID_CURSOR"
  | "INVALID_JSON"
  | "INVALID_REQUEST"
  | "INVALID_STATE"
  | "IP_NOT_ALLOWED"
  | "MINT_NOT_FOUND"
  | "NOT_ACCEPTABLE"
  | "NOT_FOUND"
  | "OPERATOR_ONLY"
  | "ORGANIZATION_FROZEN"
  | "RATE_LIMITED"
  | "REJECT_BLOCKED_SANCTIONS"
  | "RESOLUTION_IN_PROGRESS"
  | "RESOLUTION_STUCK"
  | "SAME_ACCOUNT"
  | "SCOPE_MISSING"
  | "UNAUTHORIZED"
  | "UNAVAILABLE"
  | "UNKNOWN_FIELD"
  | "UNSUPPORTED_MEDIA_TYPE"
  | "WITHDRAWALS_SUSPENDED"
  | "WITHDRAWAL_RISK_BLOCKED"
  | (string & {});

/** Who decided. */
export interface Actor {
  /** The id of the actor: of the key for an additional API key, of the organization for the main key. */
  id: string;
  /** The name of who decided. */
  name: string | null;
  /** What it is. */
  type: string;
}

/** How many of the needed approvals it has. */
export interface Approvals {
  /** When the wait ends; null when it does not end by itself. */
  expiresAt: string | null;
  /** How many it has. */
  received: number;
  /** How many approvals it needs. */
  required: number;
}

/** A customer's balance of one mint. */
export interface Balance {
  /** May be spent. */
  available: string;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** Deposits that risk screening flagged. The total does not include them. */
  held: string;
  /** Held for swaps that have not ended. */
  inSwap: string;
  /** The mint: a token on a chain. */
  mintId: number;
  /** Deposits that are on the chain and not credited yet. The total does not include them. */
  pendingDeposit: string;
  /** Held for withdrawals that have not ended. */
  pendingWithdraw: string;
  /** The symbol, for people. It identifies nothing: two tokens may share it. */
  symbol: string;
  /** available + pendingWithdraw + inSwap. */
  total: string;
  /** The value in dollars, for display; null when there is no price. */
  usdValue: string | null;
}

/** A customer's balances, by mint. */
export interface Balances {
  /** The items, in order. */
  data: Balance[];
}

/** One of your customers. */
export interface Customer {
  /** When it was made. */
  createdAt: string;
  /** The customer's e-mail. This field sets it while none is known, and never changes it. */
  customerEmail: string | null;
  /**
   * Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e): URL libraries would make another path of it. An id with / stands in paths as %2F, and
   * does not work behind a proxy that decodes it.
   */
  customerId: string;
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata: Record<string, string>;
  /** FROZEN: deposits are credited as usual, and no money leaves. */
  status: "ACTIVE" | "FROZEN";
  /** When it last changed. */
  updatedAt: string;
}

/** Changes a customer. Fields that are left out stay as they are. */
export interface CustomerChange {
  /**
   * The customer's e-mail from now on. One that is not the known one does not count for an allowlist
   * for 24 hours.
   */
  customerEmail?: string;
  /**
   * Your own keys and values from now on, in place of all there were: at most 20 keys of up to 40
   * characters, values of up to 500.
   */
  metadata?: Record<string, string>;
}

/**
 * What a customer pays of what a withdrawal costs your organization, by the setting and the prices
 * of its request.
 */
export interface CustomerCharge {
  /** What was taken from the customer; null without a charge, and until the payment has ended. */
  charged: string | null;
  /**
   * Which costs: the rent of an account that is made for the payee, or that and the network fee of a
   * payment that failed because of its payee.
   */
  costs: "RENT" | "RENT_AND_FAILURES";
  /**
   * The most that is taken out of what is held when the payment fails because of its payee; null
   * when nothing is.
   */
  failureMax: string | null;
  /** The mint of these amounts, which is the withdrawn one. */
  mintId: number;
  /**
   * What would be held in addition to the amount for an account of the payee. What the payment did not cost is
   * given back.
   */
  rentMax: string;
}

/** A page of customers. */
export interface CustomerPage {
  /** The items, in order. */
  data: Customer[];
  /** Whether something follows. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** One decision about a withdrawal. It cannot be changed. */
export interface Decision {
  /**
   * REQUESTED, APPROVED, APPROVAL_ADDED (a person approves, and it needs more of them),
   * APPROVAL_REFUSED (what was asked again spoke against it), RETURNED (the signer or the chain sent
   * it back), REMOVED or CANCELLED. Acts are added without notice.
   */
  act: string;
  /** Who decided; null for a request from before the service recorded it. */
  actor: Actor | null;
  /** Why the withdrawal waits for a person after this decision. */
  approvalReasons: string[];
  /** When. */
  at: string;
  /** Every rule that was evaluated, in order. */
  gates: GateResult[];
  /** The note of the person, or the error of the signer; null without one. */
  note: string | null;
  /** The status of the withdrawal after the decision. */
  status: string;
}

/** What is kept with a decision. */
export interface DecisionNote {
  /** The reason, in a sentence or two, for the record. resolution shows it. */
  note?: string | null;
}

/** All decisions about a withdrawal, oldest first. */
export interface Decisions {
  /** The items, in order. */
  data: Decision[];
}

/** One attempt to deliver an event to an endpoint. */
export interface DeliveryAttempt {
  /** 1, 2, …: the number of attempts to deliver this event to this endpoint. */
  attempt: number;
  /** When the attempt was made. */
  createdAt: string;
  /**
   * What became of the event at this endpoint: PENDING while it is tried, DELIVERED, FAILED after
   * the whole schedule, or CANCELLED with its endpoint.
   */
  deliveryStatus: "PENDING" | "DELIVERED" | "FAILED" | "CANCELLED";
  /** How long the attempt took, in milliseconds. */
  durationMs: number;
  /** Why the attempt failed, in plain words; null when the event was delivered. */
  error: string | null;
  /** The event. */
  eventId: string;
  /** The earliest time of the next attempt; null when there is none, or when there was a later attempt. */
  nextAttemptAt: string | null;
  /** What was sent. */
  request: DeliveryRequest;
  /** The answer; null without an answer. */
  response: DeliveryResponse | null;
  /** DELIVERED, or FAILED with the error. */
  status: "DELIVERED" | "FAILED";
  /** Whether the event is a sample that was requested. */
  test: boolean;
  /** What the event tells. */
  type: string;
}

/** A page of attempts. */
export interface DeliveryAttemptPage {
  /** The items, in order. */
  data: DeliveryAttempt[];
  /** Whether something follows. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** What was sent. */
export interface DeliveryRequest {
  /** The body, byte for byte; null once the event is older than 90 days. */
  body: string | null;
  /** The headers, without webhook-signature. */
  headers: Record<string, string>;
  /** Where it was sent. */
  url: string;
}

/** What came back. */
export interface DeliveryResponse {
  /** The first 1024 bytes, as text. */
  body: string;
  /** The HTTP status. */
  statusCode: number;
}

/**
 * A transfer to an address of one of your customers, or of a product of your own. Credit your user
 * on CUSTOMER_DEPOSIT with isFlagged false, or on CUSTOMER_DEPOSIT_APPROVED; never on both.
 */
export interface Deposit {
  /** The address, in the canonical form of its chain. */
  address: string;
  /** Atomic units. */
  amount: string;
  /** The amount in whole tokens. */
  amountDecimal: string | null;
  /** The number of the block. A reorganization can change it. */
  blockNumber: number | null;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** What the chain says. */
  chainStatus: "PENDING" | "INCLUDED" | "FINALIZED" | "REORGED";
  /** How many blocks have seen it. */
  confirmations: number;
  /** How many confirmations to show to people until a deposit counts. The service decides by finality. */
  confirmationsRequired: number;
  /** When its block became final. */
  confirmedAt: string | null;
  /** The token's contract; null for the native coin of the chain. */
  contractAddress?: string | null;
  /** When it was made. */
  createdAt: string;
  /** When it was credited. */
  creditedAt: string | null;
  /** The customer's e-mail, where one is known. */
  customerEmail: string | null;
  /** The customer whose address received the deposit; null for a deposit of your own, which has a product. */
  customerId: string | null;
  /** The id of the deposit. The same transfer on the chain always has the same id. */
  depositId: string;
  /** The deposit swap that this credit completes, or null. */
  depositSwapId: string | null;
  /** When it was first seen. */
  detectedAt: string | null;
  /** Why the deposit is flagged; null unless it is. */
  flagReason: FlagReason | null;
  /**
   * What screening says of the sender since it was flagged, until it was decided; null unless it was
   * asked about again. It decides nothing, and no decision waits for it.
   */
  freshScreening: FreshScreening | null;
  /**
   * Who sent it: several where several did, and none where one of them cannot be named or they are
   * more than 20.
   */
  fromAddresses: string[];
  /** Whether risk screening flagged the deposit. It stays true after an approval: status says whether the deposit is credited. */
  isFlagged: boolean;
  /**
   * Index of the token's log in its block; null for a transfer of the native coin. An attribute: a
   * reorganization may change it.
   */
  logIndex: number | null;
  /**
   * What the payer wrote into the transaction as memo; null where there is none, before it is read,
   * and on every chain but SOLANA. It is text of a stranger and proves nothing about who paid:
   * escape it where you show it, and credit no customer by it. Several memos of a transaction stand
   * one below the other. Control characters are replaced by U+FFFD.
   */
  memo: string | null;
  /** The mint, for people. */
  mint: EmbeddedMint | null;
  /** The mint; null for a token that the catalogue does not list. */
  mintId: number | null;
  /**
   * Which output of the transaction it is, from 0; null except on BITCOIN, where two outputs to one
   * customer are two deposits.
   */
  outputIndex: number | null;
  /** The product of your own whose address received the deposit. Only a deposit of your own has it. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | null;
  /** How it was resolved; null until it is. */
  resolution: Resolution | null;
  /** Attempts that failed before anything reached the chain. */
  resolutionAttempts: ResolutionAttempt[];
  /**
   * Only of a flagged deposit: what speaks against sending it back to where it came from. With
   * MULTIPLE_INPUTS there is no one sender, and only the operator rejects it. The others are for
   * whoever decides to weigh.
   */
  returnAddressRisk?: "NONE" | "MULTIPLE_INPUTS" | "CONTRACT" | "KNOWN_EXCHANGE" | "SWAP_SOLVER" | null;
  /**
   * How the credit was taken back. Present only for what is REVERSED: the chain's finality itself
   * broke, and the transfer is not on it any more.
   */
  reversal?: Reversal | null;
  /** The severity that flagged it. */
  riskOfFunds: string | null;
  /** What risk screening said. */
  screening: Screening;
  /** EXTERNAL, CUSTOMER_SWAP, DEPOSIT_SWAP, INTERNAL or CHECKOUT. Sources may be added without notice. */
  source: string;
  /** What the books say. */
  status: "DETECTED" | "CONFIRMING" | "SCREENING" | "CREDITED" | "FLAGGED" | "APPROVING" | "REJECTING" | "REDIRECTING" | "RESOLUTION_STUCK" | "REJECTED" | "REDIRECTED" | "ORPHANED" | "UNSUPPORTED" | "BELOW_MINIMUM" | "REVERSED";
  /** The customer swap that this credit completes, or null. */
  swap: SwapSummary | null;
  /** The hash of the sweep to the treasury; null until the sweep. */
  sweepTxHash: string | null;
  /** The transaction. */
  txHash: string;
  /**
   * Why it is not credited. Present only for what is UNSUPPORTED. Of very many transfers of tokens
   * that are not in the catalogue only the first are recorded.
   */
  unsupportedReason?: string | null;
  /** The value in dollars, for display; null when there is no price. */
  usdValue: string | null;
}

/** Where a customer pays in. The address belongs to the customer and the chain. */
export interface DepositAddress {
  /** The address, in the canonical form of its chain. */
  address: string;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /**
   * Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e): URL libraries would make another path of it. An id with / stands in paths as %2F, and
   * does not work behind a proxy that decodes it.
   */
  customerId: string;
  /** The memo that belongs to the address; null on a chain without memos. */
  memo: string | null;
  /** The smallest deposit that is credited, in atomic units. A smaller one is recorded only. */
  minDepositAmount: string;
  /** The mint: a token on a chain. */
  mintId: number;
  /** A link that wallets can open, for a QR code. */
  paymentUri: string;
}

/** A page of deposits. */
export interface DepositPage {
  /** The items, in order. */
  data: Deposit[];
  /** Whether something follows. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Asks for a deposit address. */
export interface DepositRequest {
  /** The customer's e-mail. This call sets it while none is known, and never changes it. */
  customerEmail?: string | null;
  /**
   * Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e): URL libraries would make another path of it. An id with / stands in paths as %2F, and
   * does not work behind a proxy that decodes it.
   */
  customerId: string;
  /** The mint: a token on a chain. */
  mintId: number;
}

/** A token on a chain, as other objects show it. */
export interface EmbeddedMint {
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** The token's contract; null for the native coin of the chain. */
  contractAddress: string | null;
  /** The number of decimals of the atomic unit. Read it before you convert an amount. */
  decimals: number;
  /** The id of the mint. Other objects name it mintId. */
  id: number;
  /** For people. */
  name: string;
  /** The symbol, for people. It identifies nothing: two tokens may share it. */
  symbol: string;
}

/** Where events are sent. */
export interface Endpoint {
  /** The date of the payload version. */
  apiVersion: string;
  /** When it was made. */
  createdAt: string;
  /** For people. */
  description: string;
  /** The webhook endpoint. */
  endpointId: string;
  /**
   * Which events it receives. Empty means the seven events of the interface and no extension; *
   * alone means all, also those that are added later.
   */
  events: string[];
  /**
   * The first of the failed attempts since one succeeded; null when the last succeeded. After five
   * days of nothing else the endpoint is DISABLED_BY_FAILURE.
   */
  failingSince: string | null;
  /** What leaves out events. */
  filters: Filters;
  /** ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE. */
  status: "ENABLED" | "PAUSED" | "DISABLED_GONE" | "DISABLED_BY_FAILURE";
  /** When it last changed. */
  updatedAt: string;
  /** The URL to which events are posted: HTTPS, and no address inside a private network. */
  url: string;
}

/** Changes a webhook endpoint. Fields that are left out stay as they are. */
export interface EndpointChange {
  /** For people. */
  description?: string | null;
  /**
   * Which events it receives. Empty for the seven events of the interface and no extension; * alone
   * for all, also those that are added later.
   */
  events?: ("*" | "CUSTOMER_DEPOSIT" | "CUSTOMER_DEPOSIT_APPROVED" | "CUSTOMER_DEPOSIT_REDIRECTED" | "CUSTOMER_DEPOSIT_REJECTED" | "CUSTOMER_DEPOSIT_REVERSED" | "CUSTOMER_DEPOSIT_SEEN" | "CUSTOMER_SWAP_FAILED" | "CUSTOMER_WITHDRAW" | "CUSTOMER_WITHDRAW_APPROVED" | "CUSTOMER_WITHDRAW_AWAITING_APPROVAL" | "CUSTOMER_WITHDRAW_BLOCKED" | "CUSTOMER_WITHDRAW_CANCELLED" | "CUSTOMER_WITHDRAW_COMPLETED" | "CUSTOMER_WITHDRAW_FAILED" | "CUSTOMER_WITHDRAW_REJECTED" | "ORGANIZATION_DEPOSIT" | "ORGANIZATION_DEPOSIT_REVERSED" | "ORGANIZATION_WITHDRAW" | "ORGANIZATION_WITHDRAW_APPROVED" | "ORGANIZATION_WITHDRAW_AWAITING_APPROVAL" | "ORGANIZATION_WITHDRAW_BLOCKED" | "ORGANIZATION_WITHDRAW_CANCELLED" | "ORGANIZATION_WITHDRAW_COMPLETED" | "ORGANIZATION_WITHDRAW_FAILED" | "ORGANIZATION_WITHDRAW_REJECTED" | "TRANSFER_COMPLETED")[] | null;
  /** What leaves out events. */
  filters?: EndpointFilters | null;
  /** ENABLED or PAUSED. */
  status?: "ENABLED" | "PAUSED" | null;
  /** The new URL to which events are posted: HTTPS, and no address inside a private network. */
  url?: string | null;
}

/** Limits the events of an endpoint. A filter that is left out limits nothing. */
export interface EndpointFilters {
  /** Only events of this chain. */
  chain?: "ETHEREUM" | "BASE" | "ARBITRUM" | "OPTIMISM" | "POLYGON" | "BSC" | "AVALANCHE" | "SOLANA" | "BITCOIN" | "TRON" | null;
  /**
   * Only events that concern this customer, compared byte for byte; of a transfer those that the
   * customer pays.
   */
  customerId?: string | null;
}

/** A page of webhook endpoints. */
export interface EndpointPage {
  /** The items, in order. */
  data: Endpoint[];
  /** Whether something follows. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Registers a webhook endpoint. */
export interface EndpointRequest {
  /** For people. */
  description?: string | null;
  /**
   * Which events it receives. Leave it out, or empty, for the seven events of the interface and no
   * extension; * alone is all of them, also those that are added later.
   */
  events?: ("*" | "CUSTOMER_DEPOSIT" | "CUSTOMER_DEPOSIT_APPROVED" | "CUSTOMER_DEPOSIT_REDIRECTED" | "CUSTOMER_DEPOSIT_REJECTED" | "CUSTOMER_DEPOSIT_REVERSED" | "CUSTOMER_DEPOSIT_SEEN" | "CUSTOMER_SWAP_FAILED" | "CUSTOMER_WITHDRAW" | "CUSTOMER_WITHDRAW_APPROVED" | "CUSTOMER_WITHDRAW_AWAITING_APPROVAL" | "CUSTOMER_WITHDRAW_BLOCKED" | "CUSTOMER_WITHDRAW_CANCELLED" | "CUSTOMER_WITHDRAW_COMPLETED" | "CUSTOMER_WITHDRAW_FAILED" | "CUSTOMER_WITHDRAW_REJECTED" | "ORGANIZATION_DEPOSIT" | "ORGANIZATION_DEPOSIT_REVERSED" | "ORGANIZATION_WITHDRAW" | "ORGANIZATION_WITHDRAW_APPROVED" | "ORGANIZATION_WITHDRAW_AWAITING_APPROVAL" | "ORGANIZATION_WITHDRAW_BLOCKED" | "ORGANIZATION_WITHDRAW_CANCELLED" | "ORGANIZATION_WITHDRAW_COMPLETED" | "ORGANIZATION_WITHDRAW_FAILED" | "ORGANIZATION_WITHDRAW_REJECTED" | "TRANSFER_COMPLETED")[] | null;
  /** What leaves out events. */
  filters?: EndpointFilters | null;
  /** The URL to which events are posted: HTTPS, and no address inside a private network. */
  url: string;
}

/** A new endpoint with its secret, which only this answer shows. */
export interface EndpointWithSecret {
  /** The date of the payload version. */
  apiVersion: string;
  /** When it was made. */
  createdAt: string;
  /** For people. */
  description: string;
  /** The webhook endpoint. */
  endpointId: string;
  /**
   * Which events it receives. Empty means the seven events of the interface and no extension; *
   * alone means all, also those that are added later.
   */
  events: string[];
  /**
   * The first of the failed attempts since one succeeded; null when the last succeeded. After five
   * days of nothing else the endpoint is DISABLED_BY_FAILURE.
   */
  failingSince: string | null;
  /** What leaves out events. */
  filters: Filters;
  /** The secret that verifies v1 signatures. Only this answer shows it: store it. */
  secret: string;
  /** ENABLED. */
  status: "ENABLED" | "PAUSED" | "DISABLED_GONE" | "DISABLED_BY_FAILURE";
  /** When it last changed. */
  updatedAt: string;
  /** The URL to which events are posted: HTTPS, and no address inside a private network. */
  url: string;
}

/** One movement of a balance, with its cause. */
export interface Entry {
  /** Whose balance moved. */
  account: Party;
  /** Atomic units. */
  amount: string;
  /** The amount in whole tokens. */
  amountDecimal: string;
  /**
   * Which of the balances: AVAILABLE, or PENDING_WITHDRAW for what is held for a customer's
   * withdrawals.
   */
  balance: "AVAILABLE" | "PENDING_WITHDRAW";
  /**
   * What happened: DEPOSIT, DEPOSIT_REVERSAL, WITHDRAWAL_HOLD, WITHDRAWAL_END, WITHDRAWAL_FEE,
   * WITHDRAWAL_CHARGE, WITHDRAWAL_CHARGE_RETURN, TRANSFER, RESTORE. Causes may be added without notice.
   */
  cause: string;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** When it was made. */
  createdAt: string;
  /** CREDIT increased the balance, DEBIT decreased it. */
  direction: "CREDIT" | "DEBIT";
  /** The movement. */
  entryId: string;
  /** The mint: a token on a chain. */
  mintId: number;
  /** The deposit, withdrawal or transfer that caused the movement. */
  resourceId: string;
  /** The symbol, for people. It identifies nothing: two tokens may share it. */
  symbol: string;
}

/** A page of movements. */
export interface EntryPage {
  /** The items, in order. */
  data: Entry[];
  /** Whether something follows. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** The body of a webhook, byte for byte. */
export interface Envelope {
  /** The date of the payload version. */
  apiVersion: string;
  /** The object of the event: a deposit, a withdrawal, a transfer or a failed swap. */
  data: Record<string, unknown>;
  /** LIVE, or TEST for everything that moves no money of a main network. */
  environment: "LIVE" | "TEST";
  /** The id of the event, which is the same in all attempts. */
  id: string;
  /** Your organization. */
  organizationId: string;
  /** 1, 2, … within your organization, without gaps. Only requested samples do not have it. */
  sequence?: number;
  /** When the change happened. */
  timestamp: string;
  /** The type of the event. Types may be added without notice. */
  type: string;
}

/** A stretch of the event feed. */
export interface EnvelopePage {
  /** The items, in order. */
  data: Envelope[];
  /** Whether something follows. */
  hasMore: boolean;
  /**
   * What to give as cursor for the next page, with the same types; null at the end. The last
   * sequence as after leads to the same place.
   */
  nextCursor: string | null;
}

/** What a withdrawal would cost, and how much the customer can withdraw. */
export interface Estimate {
  /**
   * What the customer pays of what the payment costs, in the token that is withdrawn and beside the
   * amount. Absent where your organization charges nothing (chargeCustomerCosts).
   */
  customerCharge?: CustomerCharge | null;
  /** Ask again after this. */
  expiresAt: string;
  /**
   * What the customer could withdraw now; null when no customer was named. With either feeMode the
   * fee comes not on top of it; what customerCharge holds is left out.
   */
  maxAmount: string | null;
  /** The highest network fee, in atomic units of the native coin. */
  networkFee: string;
  /** The mint of networkFee: the chain's native coin. */
  networkFeeMintId: number | null;
  /** The same in dollars, exactly; null without a recent price of the coin. */
  networkFeeUsd: string | null;
}

/** Asks what a withdrawal would cost. It has the body of POST /withdraw, of which only mintId is required. */
export interface EstimateRequest {
  /** As in POST /withdraw. */
  amount?: string | null;
  /**
   * Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e): URL libraries would make another path of it. An id with / stands in paths as %2F, and
   * does not work behind a proxy that decodes it.
   */
  customerId?: string | null;
  /**
   * Who pays the network fee. ORGANIZATION is billed for it, and the destination receives the whole
   * amount. DEDUCTED, for a chain's own coin only: the customer pays amount and the destination
   * receives amount less networkFee, which is decided when the payment is ordered and stays; what
   * the network takes more or less than that is the organization's.
   */
  feeMode?: "ORGANIZATION" | "DEDUCTED" | null;
  /**
   * Your name for the payment you mean: 1 to 255 printable ASCII characters without a space. It
   * never expires.
   */
  idempotencyKey?: string | null;
  /**
   * The most that the network may take, in atomic units of the chain's own coin, whatever useDecimal
   * says. While the network asks for more the withdrawal is AWAITING_APPROVAL with NETWORK_FEE, and
   * no transaction that pays is made above it.
   */
  maxNetworkFee?: string | null;
  /** The memo that belongs to the address; null on a chain without memos. */
  memo?: string | null;
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata?: Record<string, string> | null;
  /** The mint: a token on a chain. */
  mintId: number;
  /** Your own reference. The service shows it and can search for it. */
  reference?: string | null;
  /** true: a person has to approve the withdrawal before anything is sent. */
  requireApproval?: boolean;
  /** The destination, in the canonical form of its chain. */
  toAddress?: string | null;
  /**
   * What you have to say of the parties: any object of up to 4096 bytes. It is kept and shown with
   * the withdrawal, is not checked, and no event carries it.
   */
  travelRule?: Record<string, unknown> | null;
  /** Reads amount as whole tokens. */
  useDecimal?: boolean;
}

/** Leave out events. */
export interface Filters {
  /** Only events of this chain; null: all. */
  chain: string | null;
  /** Only events that concern this customer; of transfers, those that the customer pays; null: all. */
  customerId: string | null;
}

/** Why a deposit is held. */
export interface FlagReason {
  /** The provider's categories. */
  categories: string[];
  /** A name for a program. */
  code: string;
  /** The owner of the sending wallet, if the provider knows it. */
  entity: string | null;
  /** Who was asked. */
  provider: string | null;
  /**
   * Present and true when the sender itself is on a list of sanctions. To send blocked property back
   * may be forbidden where you are: ask before you reject.
   */
  sanctioned?: boolean;
  /** The provider's own number. */
  score: number | null;
  /** NONE, LOW, MEDIUM, HIGH or SEVERE, in this order, or UNKNOWN, which is not part of the order. */
  severity: string | null;
}

/** Says why the customer is frozen. */
export interface FreezeRequest {
  /** For your own records: the audit log shows who froze the customer and why. */
  reason?: string | null;
}

/** The latest answer of screening about the sender of a flagged deposit. It decides nothing. */
export interface FreshScreening {
  /** The provider's categories. */
  categories: string[];
  /** The owner of the sending wallet, if the provider knows it. */
  entity: string | null;
  /** Who was asked. */
  provider: string;
  /** Your own reference. The service shows it and can search for it. */
  reference: string | null;
  /** The provider's own number. */
  score: number | null;
  /** When it was asked. */
  screenedAt: string;
  /** NONE, LOW, MEDIUM, HIGH or SEVERE, in this order, or UNKNOWN, which is not part of the order. */
  severity: string;
}

/** The result of one rule, with the facts that it used. Amounts are in atomic units, values in dollars. */
export interface GateResult {
  /** What the customer could spend. */
  available?: string;
  /** The error of the signer or of the chain. */
  code?: string;
  /**
   * What the network takes at most, or took, for the customer's other withdrawals of the last 24
   * hours, in dollars.
   */
  costsUsd?: string;
  /**
   * The withdrawal to the same destination that the chain reverted, since which no approved one was
   * paid.
   */
  failedWithdrawalId?: string;
  /** The most that the service charges for a payment that fails because of its payee. */
  failureMax?: string;
  /** What is stopped. */
  freeze?: string;
  /**
   * The rule: FREEZE, IDEMPOTENCY_KEY, MINIMUM, SUSPENDED, ADDRESS, BALANCE, RISK, REQUIRE_APPROVAL,
   * USD_THRESHOLD, DESTINATION_ADDRESS, LIQUIDITY, NETWORK_FEE, CUSTOMER_COSTS, CUSTOMER_CHARGE or
   * SIGNER. Rules are added without notice.
   */
  gate: string;
  /** What your addresses could pay, as far as the rule counted. */
  liquid?: string;
  /** The highest network fee that the request accepted. */
  maxNetworkFee?: string;
  /**
   * The smallest amount that may be asked for: the mint's, or what reaches the destination with the
   * fee that comes out of it.
   */
  minimum?: string;
  /** The highest network fee at the time. */
  networkFee?: string;
  /** Dollars for one whole token. */
  price?: string;
  /** The age of the price when the rule used it. */
  priceAgeSeconds?: string;
  /** The time of the price, by its source. */
  priceAt?: string;
  /** Who said so. */
  priceSource?: string;
  /** Who said it. */
  provider?: string;
  /** The approvalReason that the rule gave. */
  reason?: string;
  /** What would be held in addition to the amount for an account of the payee. */
  rentMax?: string;
  /** The known address that looks like the destination. */
  resembles?: string;
  /**
   * PASS, HOLD, REFUSE, BLOCK (answered 451), SKIPPED (it would hold, and the approval allowlist has
   * the customer), or NOT_CONFIGURED where nothing is set for the rule to ask. Results are added
   * without notice.
   */
  result: string;
  /** How far that reaches. */
  scope?: string;
  /** What risk screening said. */
  severity?: string;
  /** What it was compared with. */
  threshold?: string;
  /** What the amount was worth. */
  usdValue?: string;
  /** A sentence for a person. */
  why?: string;
}

/** Says how long the former value of a key works after a roll. */
export interface KeyRoll {
  /**
   * How long the former value works; 0, which it is when it is left out, ends it at once, with every
   * value before it. More is refused while an earlier former value works.
   */
  overlapSeconds?: number;
}

/** A token on a chain. */
export interface Mint {
  /** The network by its CAIP-2 name; null for a chain that does not run here. */
  caip2: string | null;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** How many confirmations to show to people until a deposit counts. The service decides by finality. */
  confirmationsRequired: number;
  /** The token's contract; null for the native coin of the chain. */
  contractAddress: string | null;
  /** The number of decimals of the atomic unit. Read it before you convert an amount. */
  decimals: number;
  /** Whether deposit addresses are available. */
  depositEnabled: boolean;
  /** What makes a block final on this chain. */
  finality: string;
  /** The id of the mint. Other objects name it mintId. */
  id: number;
  /** NATIVE is the native coin of the chain. */
  kind: "NATIVE" | "TOKEN";
  /** The address of a picture, or null. */
  logoUrl: string | null;
  /** Whether a deposit needs a memo besides the address. */
  memoRequired: boolean;
  /** The smallest deposit that is credited, in atomic units. A smaller one is recorded only. */
  minDepositAmount: string;
  /** The smallest withdrawal, in atomic units. */
  minWithdrawAmount: string;
  /** For people. */
  name: string;
  /** The network of the chain that this installation uses. */
  network: "MAINNET" | "TESTNET" | "LOCAL";
  /** Whether customer swaps of this organization may use the mint. */
  swappable: boolean;
  /** The symbol, for people. It identifies nothing: two tokens may share it. */
  symbol: string;
  /** The dollar price of one whole token, for display; null when it is not known. */
  usdPrice: string | null;
  /** When that was the price. */
  usdPriceAt: string | null;
  /** Whether withdrawals are accepted. */
  withdrawEnabled: boolean;
}

/** A page of mints. */
export interface MintPage {
  /** The items, in order. */
  data: Mint[];
  /** Whether something follows. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** One side of a transfer: a customer or a product. */
export interface Party {
  /**
   * Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e): URL libraries would make another path of it. An id with / stands in paths as %2F, and
   * does not work behind a proxy that decodes it.
   */
  customerId?: string | null;
  /** A balance of your own organization. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | null;
}

/** What POST /withdraw would do now. */
export interface Preview {
  /**
   * Why: REQUIRE_APPROVAL, USD_THRESHOLD, LOW_LIQUIDITY, DESTINATION_ADDRESS, RISK_REVIEW,
   * PRICE_UNAVAILABLE, POLICY_LIMIT, NETWORK_FEE (the network asks for more than maxNetworkFee),
   * DUPLICATE_KEY (the signer remembers another payment with its idempotency key; nothing was sent)
   * or RESTORED (made again from the signer's journal after a restore; nothing was sent).
   */
  approvalReasons: string[];
  /**
   * What the customer pays of what the payment costs, in the token that is withdrawn and beside the
   * amount. Absent where your organization charges nothing (chargeCustomerCosts).
   */
  customerCharge?: CustomerCharge | null;
  /** The withdrawal that already has the idempotencyKey. Present only then. */
  existingId?: string | null;
  /** Every rule that was evaluated, in order. */
  gates: GateResult[];
  /**
   * The most that the network would take, in atomic units of its own coin; null when the chain does
   * not say. With feeMode DEDUCTED it comes out of the amount.
   */
  networkFee: string | null;
  /** The mint of networkFee: the chain's native coin. */
  networkFeeMintId: number | null;
  /**
   * The status that the withdrawal would have: PROCESSING or AWAITING_APPROVAL, or that of the one
   * that has the idempotencyKey.
   */
  wouldBe: string;
}

/**
 * Where your organization pays in for one of its products. The address belongs to the product and
 * the chain.
 */
export interface ProductAddress {
  /** The address, in the canonical form of its chain. */
  address: string;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** The memo that belongs to the address; null on a chain without memos. */
  memo: string | null;
  /** The smallest deposit that is credited, in atomic units. A smaller one is recorded only. */
  minDepositAmount: string;
  /** The mint: a token on a chain. */
  mintId: number;
  /** A link that wallets can open, for a QR code. */
  paymentUri: string;
  /** A balance of your own organization. */
  product: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT";
}

/** Your organization's balance of one mint in one product. */
export interface ProductBalance {
  /** May be moved. */
  available: string;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** The mint: a token on a chain. */
  mintId: number;
  /**
   * What your customers have of the mint, available or being withdrawn. Present for CUSTODIAL alone;
   * it is theirs, and stands outside the total.
   */
  owedToCustomers?: string | null;
  /** Held for unfinished payments of the product. */
  pending: string;
  /** Deposits that are on the chain and not credited yet. The total does not include them. */
  pendingDeposit: string;
  /** A balance of your own organization. */
  product: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT";
  /** The symbol, for people. It identifies nothing: two tokens may share it. */
  symbol: string;
  /** available + pending. */
  total: string;
  /** The value in dollars, for display; null when there is no price. */
  usdValue: string | null;
}

/** Your organization's own balances, by mint and product. */
export interface ProductBalances {
  /** The items, in order. */
  data: ProductBalance[];
}

/** Asks for a deposit address of your own. */
export interface ProductDepositRequest {
  /** The mint: a token on a chain. */
  mintId: number;
  /** A balance of your own organization. */
  product: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT";
}

/** Asks the service to send the events that an endpoint missed. */
export interface RecoverRequest {
  /** true, the default: only events that were never delivered to the endpoint. false: all events again. */
  onlyFailed?: boolean | null;
  /** Only events of this time and later, by the time of the change. */
  since: string;
  /** Only events before this time; left out: up to now. */
  until?: string | null;
}

/** Asks the service to send an event again. */
export interface ResendRequest {
  /** Only this endpoint. Leave it out for every endpoint that receives this event. */
  endpointId?: string | null;
}

/** How a flagged deposit was resolved, and the transfer that carried it out. */
export interface Resolution {
  /** Atomic units. */
  amount: string | null;
  /** When it was decided. */
  decidedAt: string;
  /** Who decided. */
  decidedBy: Actor;
  /** APPROVED, REJECTED or REDIRECTED. */
  decision: string;
  /**
   * What the network took, in atomic units of its native coin; null until it is final. With feeMode
   * DEDUCTED what the customer pays of it, from the moment it is decided.
   */
  networkFee: string | null;
  /** What the person wrote. */
  note: string | null;
  /** The reason. */
  reason: string | null;
  /** Your own reference. The service shows it and can search for it. */
  reference: string | null;
  /** The destination, in the canonical form of its chain. */
  toAddress: string | null;
  /** The hash of the transaction; null until there is one. */
  txHash: string | null;
}

/** An attempt that failed before anything reached the chain. */
export interface ResolutionAttempt {
  /** What was attempted. */
  action: string;
  /** When. */
  at: string;
  /** A sentence for a person. */
  message: string;
  /** The reason. */
  reason: string;
}

/** How the service reversed a credit after the chain replaced final blocks. */
export interface Reversal {
  /**
   * What the customer did not have any more, in atomic units. With takenBack it is the deposit's
   * amount.
   */
  loss: string;
  /** When it was taken back. */
  reversedAt: string;
  /** The amount that was taken from the customer's balance, in atomic units. */
  takenBack: string;
}

/** An endpoint with a new secret, which only this answer shows. */
export interface RotatedSecret {
  /** The date of the payload version. */
  apiVersion: string;
  /** When it was made. */
  createdAt: string;
  /** For people. */
  description: string;
  /** The webhook endpoint. */
  endpointId: string;
  /**
   * Which events it receives. Empty means the seven events of the interface and no extension; *
   * alone means all, also those that are added later.
   */
  events: string[];
  /**
   * The first of the failed attempts since one succeeded; null when the last succeeded. After five
   * days of nothing else the endpoint is DISABLED_BY_FAILURE.
   */
  failingSince: string | null;
  /** What leaves out events. */
  filters: Filters;
  /** Until when the former secret signs besides the new one. */
  formerSecretUntil: string;
  /** The secret that verifies v1 signatures. Only this answer shows it: store it. */
  secret: string;
  /** ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE. */
  status: "ENABLED" | "PAUSED" | "DISABLED_GONE" | "DISABLED_BY_FAILURE";
  /** When it last changed. */
  updatedAt: string;
  /** The URL to which events are posted: HTTPS, and no address inside a private network. */
  url: string;
}

/** An API key of the organization, without its value. */
export interface ScopedKey {
  /** The id of the key; key_main is the main key. */
  apiKeyId: string;
  /** When the key was made; for the main key, when the organization was created. */
  createdAt: string;
  /** When the key expires, by the clock of the database; null: never. */
  expiresAt: string | null;
  /**
   * When a request by the value before was last let in, to the minute: before formerKeyUntil,
   * whether something still uses it.
   */
  formerKeyLastUsedAt: string | null;
  /** Until when the former value works; null: it does not work. */
  formerKeyUntil: string | null;
  /** Whether it is the main key, which may make every call and manages the other keys. */
  isMain: boolean;
  /** When a request last used the present value, to the minute; null: not yet. */
  lastUsedAt: string | null;
  /** For people. */
  name: string;
  /** When the value was last replaced; null: never. */
  rolledAt: string | null;
  /**
   * What the key may do. READ: every GET. NO_MONEY_OUT: also what changes something and lets no
   * money out. FULL: also what lets money out. Only the main key manages API keys.
   */
  scope: "READ" | "NO_MONEY_OUT" | "FULL";
  /**
   * EXPIRED: expiresAt has passed. SUSPENDED: the operator of this service has switched
   * additionalApiKeys off; the key works again when it is on. REVOKED: the operator ended the main
   * key and has not rolled it. Statuses are added without notice.
   */
  status: string;
}

/** A page of API keys. */
export interface ScopedKeyPage {
  /** The items, in order. */
  data: ScopedKey[];
  /** Whether something follows. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Makes an additional API key. */
export interface ScopedKeyRequest {
  /** When the key expires; null or left out: never. */
  expiresAt?: string | null;
  /** For people: which program uses the key. 1 to 200 bytes without control characters or space around it. */
  name: string;
  /** What the key may do. Give each program only the scope that it needs. */
  scope: "READ" | "NO_MONEY_OUT" | "FULL";
}

/** An API key with its value for the header x-api-key, which only this answer shows. */
export interface ScopedKeyWithValue {
  /** The value, for the header x-api-key. The service does not show it again. */
  apiKey: string;
  /** The id of the key; key_main is the main key. */
  apiKeyId: string;
  /** When the key was made; for the main key, when the organization was created. */
  createdAt: string;
  /** When the key expires, by the clock of the database; null: never. */
  expiresAt: string | null;
  /**
   * When a request by the value before was last let in, to the minute: before formerKeyUntil,
   * whether something still uses it.
   */
  formerKeyLastUsedAt: string | null;
  /** Until when the former value works; null: it does not work. */
  formerKeyUntil: string | null;
  /** Whether it is the main key, which may make every call and manages the other keys. */
  isMain: boolean;
  /** When a request last used the present value, to the minute; null: not yet. */
  lastUsedAt: string | null;
  /** For people. */
  name: string;
  /** When the value was last replaced; null: never. */
  rolledAt: string | null;
  /**
   * What the key may do. READ: every GET. NO_MONEY_OUT: also what changes something and lets no
   * money out. FULL: also what lets money out. Only the main key manages API keys.
   */
  scope: "READ" | "NO_MONEY_OUT" | "FULL";
  /**
   * EXPIRED: expiresAt has passed. SUSPENDED: the operator of this service has switched
   * additionalApiKeys off; the key works again when it is on. REVOKED: the operator ended the main
   * key and has not rolled it. Statuses are added without notice.
   */
  status: string;
}

/** The result of risk screening for the sender of a deposit. */
export interface Screening {
  /** Who was asked. */
  provider: string | null;
  /** Your own reference. The service shows it and can search for it. */
  reference: string | null;
  /** The provider's own number. */
  score: number | null;
  /** When it was asked. */
  screenedAt: string | null;
  /** NONE, LOW, MEDIUM, HIGH or SEVERE, in this order, or UNKNOWN, which is not part of the order. */
  severity: string | null;
  /** NOT_CONFIGURED, PENDING or PASSED, for example. */
  status: string;
}

/** A customer swap that failed after its creation. */
export interface SwapFailed {
  /**
   * Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e): URL libraries would make another path of it. An id with / stands in paths as %2F, and
   * does not work behind a proxy that decodes it.
   */
  customerId: string;
  /**
   * What had come back when the event was sent, in atomic units of the mint that was given; null
   * when nothing had.
   */
  refundedAmount: string | null;
  /** The swap. */
  swap: SwapSummary;
}

/** A customer swap as events show it. */
export interface SwapSummary {
  /** The amount in atomic units of the mint that was given. */
  amountIn: string;
  /** The amount that arrived; null until it has. */
  amountOut: string | null;
  /** When it was made. */
  createdAt: string;
  /** The customer swap. */
  customerSwapId: string;
  /** The hash of the transaction that delivered. */
  destinationTxHash: string | null;
  /** The estimate, in atomic units of the mint that was received. */
  estimatedAmountOut: string;
  /** What was given. */
  fromMint: EmbeddedMint;
  /**
   * Your name for the payment you mean: 1 to 255 printable ASCII characters without a space. It
   * never expires.
   */
  idempotencyKey: string;
  /** The hash of the transaction that paid the swap provider. */
  originTxHash: string | null;
  /** What was received. */
  toMint: EmbeddedMint;
}

/** Asks for a sample. */
export interface TestRequest {
  /** Which event. */
  type: "CUSTOMER_DEPOSIT" | "CUSTOMER_DEPOSIT_APPROVED" | "CUSTOMER_DEPOSIT_REDIRECTED" | "CUSTOMER_DEPOSIT_REJECTED" | "CUSTOMER_DEPOSIT_REVERSED" | "CUSTOMER_DEPOSIT_SEEN" | "CUSTOMER_SWAP_FAILED" | "CUSTOMER_WITHDRAW" | "CUSTOMER_WITHDRAW_APPROVED" | "CUSTOMER_WITHDRAW_AWAITING_APPROVAL" | "CUSTOMER_WITHDRAW_BLOCKED" | "CUSTOMER_WITHDRAW_CANCELLED" | "CUSTOMER_WITHDRAW_COMPLETED" | "CUSTOMER_WITHDRAW_FAILED" | "CUSTOMER_WITHDRAW_REJECTED" | "ORGANIZATION_DEPOSIT" | "ORGANIZATION_DEPOSIT_REVERSED" | "ORGANIZATION_WITHDRAW" | "ORGANIZATION_WITHDRAW_APPROVED" | "ORGANIZATION_WITHDRAW_AWAITING_APPROVAL" | "ORGANIZATION_WITHDRAW_BLOCKED" | "ORGANIZATION_WITHDRAW_CANCELLED" | "ORGANIZATION_WITHDRAW_COMPLETED" | "ORGANIZATION_WITHDRAW_FAILED" | "ORGANIZATION_WITHDRAW_REJECTED" | "TRANSFER_COMPLETED";
}

/** A transfer between two balances of your organization. It has no states: it is complete when it exists. */
export interface Transfer {
  /** Atomic units. */
  amount: string;
  /** The amount in whole tokens. */
  amountDecimal: string;
  /** When it was made. */
  createdAt: string;
  /** Who pays. */
  from: Party;
  /**
   * Your name for the payment you mean: 1 to 255 printable ASCII characters without a space. It
   * never expires.
   */
  idempotencyKey: string;
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata: Record<string, string>;
  /** The mint, for people. */
  mint: EmbeddedMint;
  /** The mint: a token on a chain. */
  mintId: number;
  /** Your own reference. The service shows it and can search for it. */
  reference: string | null;
  /** Who receives. */
  to: Party;
  /** The transfer. */
  transferId: string;
}

/** A page of transfers. */
export interface TransferPage {
  /** The items, in order. */
  data: Transfer[];
  /** Whether something follows. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** One side of a transfer: either a customer or a product. */
export interface TransferParty {
  /**
   * Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e): URL libraries would make another path of it. An id with / stands in paths as %2F, and
   * does not work behind a proxy that decodes it.
   */
  customerId?: string | null;
  /** A balance of your own organization. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | null;
}

/** Asks for a transfer between two balances. */
export interface TransferRequest {
  /**
   * Whole atomic units; whole tokens with useDecimal, with no more digits after the point than the
   * mint has decimals. ASCII digits, no sign, no exponent, no leading zero.
   */
  amount: string;
  /** Who pays. */
  from: TransferParty;
  /**
   * Your name for the transfer you mean: 1 to 255 printable ASCII characters without a space. It
   * never expires. Required, here or in the header Idempotency-Key.
   */
  idempotencyKey?: string | null;
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata?: Record<string, string> | null;
  /** The mint: a token on a chain. */
  mintId: number;
  /** Your own reference. The service shows it and can search for it. */
  reference?: string | null;
  /** Who receives. */
  to: TransferParty;
  /** Reads amount as whole tokens. */
  useDecimal?: boolean;
}

/** Has no fields. */
export interface UnfreezeRequest {
}

/** A job that sends events again, and its progress. */
export interface WebhookJob {
  /** When the job had queued everything. */
  completedAt: string | null;
  /** When it was made. */
  createdAt: string;
  /** The number of queued events that were delivered since. */
  delivered: number;
  /** The endpoint; null for every endpoint that receives the event. */
  endpointId: string | null;
  /** Of a RESEND: the event. */
  eventId: string | null;
  /** The number of events that the job looked at and that the endpoint receives. */
  examined: number;
  /** The number of queued events that failed after the whole schedule, or that were cancelled with their endpoint. */
  failed: number;
  /** The job. */
  jobId: string;
  /** RESEND or RECOVER. */
  kind: "RESEND" | "RECOVER";
  /** Whether the job sends only events that were never delivered. */
  onlyFailed: boolean;
  /** The number of queued events that have not ended yet. An event that a later job queued again counts for that job. */
  pending: number;
  /** The number of them that the job queued. The others were already queued, or were delivered. */
  queued: number;
  /** The start of a RECOVER: events of this time and later. */
  since: string | null;
  /** COMPLETED when the job has queued everything. */
  status: "RUNNING" | "COMPLETED";
  /** The end of a RECOVER: events before this time; null without an end. */
  until: string | null;
}

/** The public keys that sign webhooks. */
export interface WebhookKeys {
  /** The keys, newest first. */
  keys: string[];
}

/** Asks for a payment from a customer's balance. */
export interface WithdrawRequest {
  /**
   * Whole atomic units; whole tokens with useDecimal, with no more digits after the point than the
   * mint has decimals. ASCII digits, no sign, no exponent, no leading zero.
   */
  amount: string;
  /**
   * Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e): URL libraries would make another path of it. An id with / stands in paths as %2F, and
   * does not work behind a proxy that decodes it.
   */
  customerId: string;
  /**
   * Who pays the network fee. ORGANIZATION is billed for it, and the destination receives the whole
   * amount. DEDUCTED, for a chain's own coin only: the customer pays amount and the destination
   * receives amount less networkFee, which is decided when the payment is ordered and stays; what
   * the network takes more or less than that is the organization's.
   */
  feeMode?: "ORGANIZATION" | "DEDUCTED" | null;
  /**
   * Your name for the payment you mean: 1 to 255 printable ASCII characters without a space. It
   * never expires.
   */
  idempotencyKey?: string | null;
  /**
   * The most that the network may take, in atomic units of the chain's own coin, whatever useDecimal
   * says. While the network asks for more the withdrawal is AWAITING_APPROVAL with NETWORK_FEE, and
   * no transaction that pays is made above it.
   */
  maxNetworkFee?: string | null;
  /** Leave it out: no chain of this installation has memos. */
  memo?: string | null;
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata?: Record<string, string> | null;
  /** The mint: a token on a chain. */
  mintId: number;
  /** Your own reference. The service shows it and can search for it. */
  reference?: string | null;
  /** true: a person has to approve the withdrawal before anything is sent. */
  requireApproval?: boolean;
  /** Where the money goes. An EVM address with mixed case has to carry its EIP-55 checksum. */
  toAddress: string;
  /**
   * What you have to say of the parties: any object of up to 4096 bytes. It is kept and shown with
   * the withdrawal, is not checked, and no event carries it.
   */
  travelRule?: Record<string, unknown> | null;
  /** Reads amount as whole tokens. */
  useDecimal?: boolean;
}

/** A payment to an address, from a customer's balance or from one of the organization's own. */
export interface Withdrawal {
  /** Atomic units. */
  amount: string;
  /** The amount in whole tokens. */
  amountDecimal: string;
  /**
   * Why: REQUIRE_APPROVAL, USD_THRESHOLD, LOW_LIQUIDITY, DESTINATION_ADDRESS, RISK_REVIEW,
   * PRICE_UNAVAILABLE, POLICY_LIMIT, NETWORK_FEE (the network asks for more than maxNetworkFee),
   * DUPLICATE_KEY (the signer remembers another payment with its idempotency key; nothing was sent)
   * or RESTORED (made again from the signer's journal after a restore; nothing was sent).
   */
  approvalReasons: string[];
  /** How many of the needed approvals it has. */
  approvals: Approvals;
  /** When it was approved. */
  approvedAt: string | null;
  /** When it was first sent. */
  broadcastAt: string | null;
  /** What the chain says. */
  chainStatus: "NONE" | "PENDING" | "INCLUDED" | "FINALIZED" | "REVERTED" | "DROPPED" | "REPLACED";
  /** When its end became final. */
  completedAt: string | null;
  /** When it was made. */
  createdAt: string;
  /**
   * What the customer pays of what the payment costs, in the token that is withdrawn and beside the
   * amount. Absent where your organization charges nothing (chargeCustomerCosts).
   */
  customerCharge?: CustomerCharge | null;
  /** Your own id of the customer; null for your organization's own withdrawal, which has a product. */
  customerId: string | null;
  /** A page that shows the transaction, if an explorer is configured. */
  explorerUrl: string | null;
  /**
   * Why it failed: REVERTED, CANCELLED, or POLICY_LIMIT (the signer's limits were lowered under it).
   * The money is back in the balance.
   */
  failureReason: string | null;
  /**
   * Who pays the network fee. ORGANIZATION is billed for it, and the destination receives the whole
   * amount. DEDUCTED, for a chain's own coin only: the customer pays amount and the destination
   * receives amount less networkFee, which is decided when the payment is ordered and stays; what
   * the network takes more or less than that is the organization's.
   */
  feeMode: "ORGANIZATION" | "DEDUCTED";
  /**
   * Your name for the payment you mean: 1 to 255 printable ASCII characters without a space. It
   * never expires.
   */
  idempotencyKey: string | null;
  /**
   * The most that the network may take, in atomic units of the chain's own coin, whatever useDecimal
   * says. While the network asks for more the withdrawal is AWAITING_APPROVAL with NETWORK_FEE, and
   * no transaction that pays is made above it.
   */
  maxNetworkFee?: string | null;
  /** The memo that belongs to the address; null on a chain without memos. */
  memo: string | null;
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata: Record<string, string>;
  /** The mint, for people. */
  mint: EmbeddedMint;
  /** The mint: a token on a chain. */
  mintId: number;
  /**
   * What the network took, in atomic units of its native coin; null until it is final. With feeMode
   * DEDUCTED what the customer pays of it, from the moment it is decided.
   */
  networkFee: string | null;
  /** The mint of networkFee: the chain's native coin. */
  networkFeeMintId: number | null;
  /** The product whose balance pays. A customer's withdrawal does not have it. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | null;
  /** Your own reference. The service shows it and can search for it. */
  reference: string | null;
  /** The note of the person who removed it. */
  rejectedReason: string | null;
  /** Earlier transactions for the same payment. At most one of all of them pays. */
  replacedTxHashes: string[];
  /** Whether a person has to approve it, or had to. */
  requiresApproval: boolean;
  /** What risk screening said. */
  screening: WithdrawalScreening;
  /** What the books say. */
  status: "AWAITING_APPROVAL" | "PROCESSING" | "BROADCAST" | "COMPLETED" | "FAILED" | "REJECTED" | "CANCELLED" | "BLOCKED";
  /** The destination, in the canonical form of its chain. */
  toAddress: string;
  /**
   * What you have to say of the parties: any object of up to 4096 bytes. It is kept and shown with
   * the withdrawal, is not checked, and no event carries it.
   */
  travelRule?: Record<string, unknown>;
  /** The hash of the transaction; null until there is one. */
  txHash: string | null;
  /** Whose balance pays: a customer's, or the organization's own by request of one of its people. */
  type: "CUSTOMER" | "ORGANIZATION";
  /** The value in dollars, for display; null when there is no price. */
  usdValue: string | null;
  /** The whitelist entry that is paid. A customer's withdrawal does not have it. */
  whitelistedAddressId?: string | null;
  /** The withdrawal. */
  withdrawalId: string;
}

/** A page of withdrawals. */
export interface WithdrawalPage {
  /** The items, in order. */
  data: Withdrawal[];
  /** Whether something follows. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** The result of risk screening for a destination. */
export interface WithdrawalScreening {
  /** Who was asked. */
  provider: string | null;
  /** NONE, LOW, MEDIUM, HIGH or SEVERE, in this order, or UNKNOWN, which is not part of the order. */
  severity: string | null;
  /**
   * PASSED, BLOCKED, UNAVAILABLE where nobody could say enough, or NOT_CONFIGURED where nobody is
   * asked.
   */
  status: string;
}

/** What each type of event carries. */
export interface EventData {
  CUSTOMER_DEPOSIT: Deposit;
  CUSTOMER_DEPOSIT_APPROVED: Deposit;
  CUSTOMER_DEPOSIT_REDIRECTED: Deposit;
  CUSTOMER_DEPOSIT_REJECTED: Deposit;
  CUSTOMER_DEPOSIT_REVERSED: Deposit;
  CUSTOMER_DEPOSIT_SEEN: Deposit;
  CUSTOMER_SWAP_FAILED: SwapFailed;
  CUSTOMER_WITHDRAW: Withdrawal;
  CUSTOMER_WITHDRAW_APPROVED: Withdrawal;
  CUSTOMER_WITHDRAW_AWAITING_APPROVAL: Withdrawal;
  CUSTOMER_WITHDRAW_BLOCKED: Withdrawal;
  CUSTOMER_WITHDRAW_CANCELLED: Withdrawal;
  CUSTOMER_WITHDRAW_COMPLETED: Withdrawal;
  CUSTOMER_WITHDRAW_FAILED: Withdrawal;
  CUSTOMER_WITHDRAW_REJECTED: Withdrawal;
  ORGANIZATION_DEPOSIT: Deposit;
  ORGANIZATION_DEPOSIT_REVERSED: Deposit;
  ORGANIZATION_WITHDRAW: Withdrawal;
  ORGANIZATION_WITHDRAW_APPROVED: Withdrawal;
  ORGANIZATION_WITHDRAW_AWAITING_APPROVAL: Withdrawal;
  ORGANIZATION_WITHDRAW_BLOCKED: Withdrawal;
  ORGANIZATION_WITHDRAW_CANCELLED: Withdrawal;
  ORGANIZATION_WITHDRAW_COMPLETED: Withdrawal;
  ORGANIZATION_WITHDRAW_FAILED: Withdrawal;
  ORGANIZATION_WITHDRAW_REJECTED: Withdrawal;
  TRANSFER_COMPLETED: Transfer;
}

/**
 * An event, as a webhook and GET /events carry it. Its type tells what its data is. Types are
 * added without notice: pass over what you do not know.
 */
export type Event = { [T in keyof EventData]: Omit<Envelope, "type" | "data"> & { type: T; data: EventData[T] } }[keyof EventData];

/** The parameters of listMints. */
export interface ListMintsParams {
  /** Only on this chain. */
  chain?: "ETHEREUM" | "BASE" | "ARBITRUM" | "OPTIMISM" | "POLYGON" | "BSC" | "AVALANCHE" | "SOLANA" | "BITCOIN" | "TRON" | undefined;
  /** Only mints with exactly this symbol. */
  symbol?: string | undefined;
  /** true: only mints that can be swapped. false: only those that cannot. */
  swappable?: boolean | undefined;
  /** true: only mints with deposit addresses. false: only those without. */
  depositEnabled?: boolean | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
  /** The ETag of an earlier answer. If it is still valid, the answer is 304. */
  ifNoneMatch?: string | undefined;
}

/** The parameters of listCustomers. */
export interface ListCustomersParams {
  /** Only of this customer, compared byte for byte. */
  customerId?: string | undefined;
  /** Only in this status. */
  status?: "ACTIVE" | "FROZEN" | undefined;
  /** Only items created after this time; the time itself is excluded. */
  createdAfter?: string | Date | undefined;
  /** Only items created before this time; the time itself is excluded. */
  createdBefore?: string | Date | undefined;
  /** The order by time of creation: desc, the default, is newest first; asc is oldest first. */
  order?: "desc" | "asc" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** The parameters of listDeposits. */
export interface ListDepositsParams {
  /** Only of this customer, compared byte for byte. */
  customerId?: string | undefined;
  /** Only deposits to this product of yours. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | undefined;
  /** Only in this status. */
  status?: "DETECTED" | "CONFIRMING" | "SCREENING" | "CREDITED" | "FLAGGED" | "APPROVING" | "REJECTING" | "REDIRECTING" | "RESOLUTION_STUCK" | "REJECTED" | "REDIRECTED" | "ORPHANED" | "UNSUPPORTED" | "BELOW_MINIMUM" | "REVERSED" | undefined;
  /**
   * Only what was, or was not, held by risk screening, resolved or not. With status CREDITED,
   * REJECTED or REDIRECTED it is the history of what was decided.
   */
  isFlagged?: boolean | undefined;
  /** Only of this mint. */
  mintId?: number | undefined;
  /** Only on this chain. */
  chain?: "ETHEREUM" | "BASE" | "ARBITRUM" | "OPTIMISM" | "POLYGON" | "BSC" | "AVALANCHE" | "SOLANA" | "BITCOIN" | "TRON" | undefined;
  /** Only of this transaction. */
  txHash?: string | undefined;
  /** Only of this address. */
  address?: string | undefined;
  /** Only items created after this time; the time itself is excluded. */
  createdAfter?: string | Date | undefined;
  /** Only items created before this time; the time itself is excluded. */
  createdBefore?: string | Date | undefined;
  /** The order by time of creation: desc, the default, is newest first; asc is oldest first. */
  order?: "desc" | "asc" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** The parameters of listWithdrawals. */
export interface ListWithdrawalsParams {
  /** Only of this customer, compared byte for byte. */
  customerId?: string | undefined;
  /** Only customers' withdrawals, or only the organization's own. */
  type?: "CUSTOMER" | "ORGANIZATION" | undefined;
  /** Only in this status. */
  status?: "AWAITING_APPROVAL" | "PROCESSING" | "BROADCAST" | "COMPLETED" | "FAILED" | "REJECTED" | "CANCELLED" | "BLOCKED" | undefined;
  /** Only of this mint. */
  mintId?: number | undefined;
  /** Only on this chain. */
  chain?: "ETHEREUM" | "BASE" | "ARBITRUM" | "OPTIMISM" | "POLYGON" | "BSC" | "AVALANCHE" | "SOLANA" | "BITCOIN" | "TRON" | undefined;
  /** Only of this transaction. */
  txHash?: string | undefined;
  /** Only of this address. */
  address?: string | undefined;
  /** Only with this reference of yours. */
  reference?: string | undefined;
  /** Only the one with this key. */
  idempotencyKey?: string | undefined;
  /** Only items created after this time; the time itself is excluded. */
  createdAfter?: string | Date | undefined;
  /** Only items created before this time; the time itself is excluded. */
  createdBefore?: string | Date | undefined;
  /** The order by time of creation: desc, the default, is newest first; asc is oldest first. */
  order?: "desc" | "asc" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** The parameters of listLedgerEntries. */
export interface ListLedgerEntriesParams {
  /** Only of this customer, compared byte for byte. */
  customerId?: string | undefined;
  /** Only of this product. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | undefined;
  /** Only of this mint. */
  mintId?: number | undefined;
  /** Only on this chain. */
  chain?: "ETHEREUM" | "BASE" | "ARBITRUM" | "OPTIMISM" | "POLYGON" | "BSC" | "AVALANCHE" | "SOLANA" | "BITCOIN" | "TRON" | undefined;
  /** Only items created after this time; the time itself is excluded. */
  createdAfter?: string | Date | undefined;
  /** Only items created before this time; the time itself is excluded. */
  createdBefore?: string | Date | undefined;
  /** The order by time of creation: desc, the default, is newest first; asc is oldest first. */
  order?: "desc" | "asc" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** The parameters of listTransfers. */
export interface ListTransfersParams {
  /** Only from or to this customer, compared byte for byte. */
  customerId?: string | undefined;
  /** Only from or to this product. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | undefined;
  /** Only of this mint. */
  mintId?: number | undefined;
  /** Only on this chain. */
  chain?: "ETHEREUM" | "BASE" | "ARBITRUM" | "OPTIMISM" | "POLYGON" | "BSC" | "AVALANCHE" | "SOLANA" | "BITCOIN" | "TRON" | undefined;
  /** Only with this reference of yours. */
  reference?: string | undefined;
  /** Only the one with this key. */
  idempotencyKey?: string | undefined;
  /** Only items created after this time; the time itself is excluded. */
  createdAfter?: string | Date | undefined;
  /** Only items created before this time; the time itself is excluded. */
  createdBefore?: string | Date | undefined;
  /** The order by time of creation: desc, the default, is newest first; asc is oldest first. */
  order?: "desc" | "asc" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** The parameters of listApiKeys. */
export interface ListApiKeysParams {
  /** The order by time of creation: desc, the default, is newest first; asc is oldest first. */
  order?: "desc" | "asc" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** The parameters of listEvents. */
export interface ListEventsParams {
  /** The last sequence that you have. The default 0 starts at the first. */
  after?: number | undefined;
  /** Only events of these types, separated by commas. */
  types?: string | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same types. It takes precedence over after. */
  cursor?: string | undefined;
}

/** The parameters of listWebhookDeliveries. */
export interface ListWebhookDeliveriesParams {
  /** Only attempts with this outcome. */
  status?: "DELIVERED" | "FAILED" | undefined;
  /** Only attempts to send this event. */
  eventId?: string | undefined;
  /** Only attempts to send events of this type. */
  type?: "CUSTOMER_DEPOSIT" | "CUSTOMER_DEPOSIT_APPROVED" | "CUSTOMER_DEPOSIT_REDIRECTED" | "CUSTOMER_DEPOSIT_REJECTED" | "CUSTOMER_DEPOSIT_REVERSED" | "CUSTOMER_DEPOSIT_SEEN" | "CUSTOMER_SWAP_FAILED" | "CUSTOMER_WITHDRAW" | "CUSTOMER_WITHDRAW_APPROVED" | "CUSTOMER_WITHDRAW_AWAITING_APPROVAL" | "CUSTOMER_WITHDRAW_BLOCKED" | "CUSTOMER_WITHDRAW_CANCELLED" | "CUSTOMER_WITHDRAW_COMPLETED" | "CUSTOMER_WITHDRAW_FAILED" | "CUSTOMER_WITHDRAW_REJECTED" | "ORGANIZATION_DEPOSIT" | "ORGANIZATION_DEPOSIT_REVERSED" | "ORGANIZATION_WITHDRAW" | "ORGANIZATION_WITHDRAW_APPROVED" | "ORGANIZATION_WITHDRAW_AWAITING_APPROVAL" | "ORGANIZATION_WITHDRAW_BLOCKED" | "ORGANIZATION_WITHDRAW_CANCELLED" | "ORGANIZATION_WITHDRAW_COMPLETED" | "ORGANIZATION_WITHDRAW_FAILED" | "ORGANIZATION_WITHDRAW_REJECTED" | "TRANSFER_COMPLETED" | undefined;
  /** Only attempts of this time or later. */
  since?: string | Date | undefined;
  /** The order by time of creation: desc, the default, is newest first; asc is oldest first. */
  order?: "desc" | "asc" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** The parameters of listWebhookEndpoints. */
export interface ListWebhookEndpointsParams {
  /** The order by time of creation: desc, the default, is newest first; asc is oldest first. */
  order?: "desc" | "asc" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** One organization's interface. It may be shared: it has no state but its settings. */
export class Coffer {
  readonly #connection: Connection;

  constructor(options: Options) {
    this.#connection = new Connection(options);
  }

  /**
   * Read a mint. One token of the catalogue.
   *
   * GET /mints/{mintId}. The client repeats the call if no answer comes.
   */
  getMint(mintId: string, options: CallOptions = {}): Promise<Mint> {
    return this.#connection.call<Mint>({ method: "GET", path: `/mints/${segment("mintId", mintId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List mints. The tokens of this installation, by id. Without limit the whole catalogue is one
   * page. Read decimals before converting an amount, and swappable before offering a swap.
   *
   * GET /mints. The client repeats the call if no answer comes.
   */
  listMints(params: ListMintsParams = {}, options: CallOptions = {}): Promise<MintPage> {
    return this.#connection.call<MintPage>({ method: "GET", path: `/mints`, repeat: "ALWAYS", headers: { "if-none-match": params.ifNoneMatch }, query: { chain: params.chain, symbol: params.symbol, swappable: params.swappable, depositEnabled: params.depositEnabled, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listMints, page after page. */
  mints(params: ListMintsParams = {}, options: CallOptions = {}): AsyncGenerator<Mint, void, undefined> {
    return each(params.cursor, (cursor) => this.listMints({ ...params, cursor }, options));
  }

  /**
   * Freeze a customer. Nothing leaves the customer's balances from now on: withdrawals and transfers
   * out are 403 CUSTOMER_FROZEN, and a payment that is not on its way yet waits. What arrives is
   * credited and told as usual. Again it changes nothing. The body may be left out.
   *
   * POST /customers/{customerId}/freeze. The client repeats the call if no answer comes.
   */
  freezeCustomer(customerId: string, body: FreezeRequest = {}, options: CallOptions = {}): Promise<Customer> {
    return this.#connection.call<Customer>({ method: "POST", path: `/customers/${segment("customerId", customerId)}/freeze`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Read a customer. One customer, by your own id, escaped for a URL.
   *
   * GET /customers/{customerId}. The client repeats the call if no answer comes.
   */
  getCustomer(customerId: string, options: CallOptions = {}): Promise<Customer> {
    return this.#connection.call<Customer>({ method: "GET", path: `/customers/${segment("customerId", customerId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read a customer's balances. One row for each mint that anything of the customer's has touched.
   * total is available + pendingWithdraw + inSwap; pendingDeposit and held stand outside it.
   *
   * GET /customers/{customerId}/balances. The client repeats the call if no answer comes.
   */
  listCustomerBalances(customerId: string, options: CallOptions = {}): Promise<Balances> {
    return this.#connection.call<Balances>({ method: "GET", path: `/customers/${segment("customerId", customerId)}/balances`, repeat: "ALWAYS" }, options);
  }

  /**
   * List customers. The organization's customers. They are made by their first POST /deposit, or by
   * a transfer to them. With Accept: text/csv everything that the filters leave comes as one table,
   * as of one moment, without limit and cursor; one that breaks off is cut, never ended. A cell that
   * a spreadsheet would take for a formula has an apostrophe before it.
   *
   * GET /customers. The client repeats the call if no answer comes.
   */
  listCustomers(params: ListCustomersParams = {}, options: CallOptions = {}): Promise<CustomerPage> {
    return this.#connection.call<CustomerPage>({ method: "GET", path: `/customers`, repeat: "ALWAYS", query: { customerId: params.customerId, status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listCustomers, page after page. */
  customers(params: ListCustomersParams = {}, options: CallOptions = {}): AsyncGenerator<Customer, void, undefined> {
    return each(params.cursor, (cursor) => this.listCustomers({ ...params, cursor }, options));
  }

  /**
   * What listCustomers has as one table, without limit and cursor, read while it arrives. An error
   * while reading means that the table is not complete.
   */
  listCustomersCSV(params: ListCustomersParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/customers`, repeat: "ALWAYS", query: { customerId: params.customerId, status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Lift your freeze of a customer. Lifts the freeze that your organization put on the customer. A
   * freeze of the operator's, or of the service itself after the finality of a chain broke, is
   * another one and stays: the customer is then still FROZEN, and 403 OPERATOR_ONLY when there was
   * none of yours. Again it changes nothing. The body may be left out.
   *
   * POST /customers/{customerId}/unfreeze. The client repeats the call if no answer comes.
   */
  unfreezeCustomer(customerId: string, options: CallOptions = {}): Promise<Customer> {
    return this.#connection.call<Customer>({ method: "POST", path: `/customers/${segment("customerId", customerId)}/unfreeze`, repeat: "ALWAYS" }, options);
  }

  /**
   * Change a customer. Changes the e-mail, the metadata or both; what is not named stays, and
   * metadata is replaced whole. An e-mail decides whose withdrawals an allowlist lets pass, so a
   * changed one does not count there for 24 hours. The same e-mail in other letters is no change.
   *
   * PATCH /customers/{customerId}. The client repeats the call if no answer comes.
   */
  updateCustomer(customerId: string, body: CustomerChange, options: CallOptions = {}): Promise<Customer> {
    return this.#connection.call<Customer>({ method: "PATCH", path: `/customers/${segment("customerId", customerId)}`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Approve a flagged deposit. Credits what screening holds: it is your customer's at once, and
   * CUSTOMER_DEPOSIT_APPROVED is sent. No second CUSTOMER_DEPOSIT is. Off until the operator of this
   * service switches flaggedDepositApiEnabled on for your organization. Of all decisions about a
   * deposit one comes about; the same one again is answered the same, every other 409 with
   * currentStatus. The body may be left out.
   *
   * POST /deposits/{depositId}/approve. The client repeats the call if no answer comes.
   */
  approveDeposit(depositId: string, body: DecisionNote = {}, options: CallOptions = {}): Promise<Deposit> {
    return this.#connection.call<Deposit>({ method: "POST", path: `/deposits/${segment("depositId", depositId)}/approve`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Get a deposit address. The address for a customer on the mint's chain: the same one on every
   * call, for every mint of that chain. The customer is made on first use. What arrives is credited
   * when its block is final, and told with CUSTOMER_DEPOSIT.
   *
   * POST /deposit. The client repeats the call if no answer comes.
   */
  createDepositAddress(body: DepositRequest, options: CallOptions = {}): Promise<DepositAddress> {
    return this.#connection.call<DepositAddress>({ method: "POST", path: `/deposit`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Get an address of your own. The address of one of your products on the mint's chain: the same
   * one on every call, for every mint of that chain. What arrives there is your organization's own.
   * It is credited to the product when its block is final, under the same guards as a customer's
   * deposit, and told with ORGANIZATION_DEPOSIT to endpoints that name it.
   *
   * POST /organization-deposit. It is sent once.
   */
  createOrganizationDepositAddress(body: ProductDepositRequest, options: CallOptions = {}): Promise<ProductAddress> {
    return this.#connection.call<ProductAddress>({ method: "POST", path: `/organization-deposit`, repeat: "NEVER", body }, options);
  }

  /**
   * Read a deposit. One deposit as it is now.
   *
   * GET /deposits/{depositId}. The client repeats the call if no answer comes.
   */
  getDeposit(depositId: string, options: CallOptions = {}): Promise<Deposit> {
    return this.#connection.call<Deposit>({ method: "GET", path: `/deposits/${segment("depositId", depositId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List deposits. What arrived at the addresses of customers and of your own products, also what is
   * not final yet. A deposit has one of customerId and product. With Accept: text/csv everything
   * that the filters leave comes as one table, as of one moment, without limit and cursor; one that
   * breaks off is cut, never ended. A cell that a spreadsheet would take for a formula has an
   * apostrophe before it.
   *
   * GET /deposits. The client repeats the call if no answer comes.
   */
  listDeposits(params: ListDepositsParams = {}, options: CallOptions = {}): Promise<DepositPage> {
    return this.#connection.call<DepositPage>({ method: "GET", path: `/deposits`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, status: params.status, isFlagged: params.isFlagged, mintId: params.mintId, chain: params.chain, txHash: params.txHash, address: params.address, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listDeposits, page after page. */
  deposits(params: ListDepositsParams = {}, options: CallOptions = {}): AsyncGenerator<Deposit, void, undefined> {
    return each(params.cursor, (cursor) => this.listDeposits({ ...params, cursor }, options));
  }

  /**
   * What listDeposits has as one table, without limit and cursor, read while it arrives. An error
   * while reading means that the table is not complete.
   */
  listDepositsCSV(params: ListDepositsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/deposits`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, status: params.status, isFlagged: params.isFlagged, mintId: params.mintId, chain: params.chain, txHash: params.txHash, address: params.address, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Reject a flagged deposit. Sends what screening holds back to the address that it came from, a
   * native coin less the network's fee (SOL whole, but for what the network wants to stay on the
   * address). It is REJECTING until the transfer is final; then it is REJECTED, resolution has the
   * hash, and CUSTOMER_DEPOSIT_REJECTED is sent. An attempt that fails before anything could reach
   * the chain is kept in resolutionAttempts, and the deposit is FLAGGED again; after that only the
   * operator completes it. Look at returnAddressRisk and flagReason first. Off until the operator of
   * this service switches flaggedDepositApiEnabled on for your organization. Of all decisions about
   * a deposit one comes about; the same one again is answered the same, every other 409 with
   * currentStatus. The body may be left out. To send it elsewhere is the operator's alone: POST
   * /deposits/{depositId}/redirect is 403 OPERATOR_ONLY.
   *
   * POST /deposits/{depositId}/reject. The client repeats the call if no answer comes.
   */
  rejectDeposit(depositId: string, body: DecisionNote = {}, options: CallOptions = {}): Promise<Deposit> {
    return this.#connection.call<Deposit>({ method: "POST", path: `/deposits/${segment("depositId", depositId)}/reject`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Take a withdrawal back. Ends a withdrawal that is AWAITING_APPROVAL, or PROCESSING and waits
   * before anything of it is signed: it is CANCELLED, its amount may be spent again, and
   * CUSTOMER_WITHDRAW_CANCELLED is sent, or ORGANIZATION_WITHDRAW_CANCELLED for one of your
   * organization's own. One that had been let go is first voided by the signer: while that does not
   * answer, 503 says that the withdrawal is taken back, is never paid, and has its amount held until
   * it is CANCELLED without another call. Of a cancel, an approval and a removal that race one wins;
   * the others are answered 409 with currentStatus. So is a repetition: currentStatus CANCELLED says
   * that it is done.
   *
   * POST /withdrawals/{withdrawalId}/cancel. It is sent once.
   */
  cancelWithdrawal(withdrawalId: string, options: CallOptions = {}): Promise<Withdrawal> {
    return this.#connection.call<Withdrawal>({ method: "POST", path: `/withdrawals/${segment("withdrawalId", withdrawalId)}/cancel`, repeat: "NEVER" }, options);
  }

  /**
   * Withdraw from a customer's balance. Holds the amount and pays it to an address, or waits for a
   * person to approve. Give an idempotencyKey for each payment you mean: the same key and parameters
   * again show the same withdrawal and pay nothing more. A key never expires. Every field but
   * metadata is such a parameter, also reference: another value under a known key is 409
   * IDEMPOTENCY_CONFLICT. A 4xx means that this request held nothing and sent nothing. A 451 says
   * that risk screening refuses the destination: nothing is held, a record that is BLOCKED is kept,
   * and the same key always gets that answer. After a 5xx or no answer, repeat with the same key.
   *
   * POST /withdraw. It is repeated when no answer comes and it has an idempotencyKey; without one it
   * is sent once.
   */
  createWithdrawal(body: WithdrawRequest, options: CallOptions = {}): Promise<Withdrawal> {
    return this.#connection.call<Withdrawal>({ method: "POST", path: `/withdraw`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * Ask what a withdrawal would cost. What the network would take at most, as the chain stands, and
   * how much the customer could withdraw. Takes the body of POST /withdraw, of which only mintId is
   * needed; customerId, amount, toAddress and feeMode make the answer better, the other fields are
   * read over. It holds nothing and promises nothing: ask again after expiresAt.
   *
   * POST /withdraw/estimate. The client repeats the call if no answer comes.
   */
  estimateWithdrawal(body: EstimateRequest, options: CallOptions = {}): Promise<Estimate> {
    return this.#connection.call<Estimate>({ method: "POST", path: `/withdraw/estimate`, repeat: "ALWAYS", body, key: body.idempotencyKey }, options);
  }

  /**
   * Read a withdrawal. One withdrawal as it is now.
   *
   * GET /withdrawals/{withdrawalId}. The client repeats the call if no answer comes.
   */
  getWithdrawal(withdrawalId: string, options: CallOptions = {}): Promise<Withdrawal> {
    return this.#connection.call<Withdrawal>({ method: "GET", path: `/withdrawals/${segment("withdrawalId", withdrawalId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read the decisions about a withdrawal. Every decision, oldest first: the request with all its
   * gates and what they looked at, approval, removal, cancellation, and what the signer or the chain
   * sent back. Each was written with what it decided, and nobody can change it.
   *
   * GET /withdrawals/{withdrawalId}/decisions. The client repeats the call if no answer comes.
   */
  listWithdrawalDecisions(withdrawalId: string, options: CallOptions = {}): Promise<Decisions> {
    return this.#connection.call<Decisions>({ method: "GET", path: `/withdrawals/${segment("withdrawalId", withdrawalId)}/decisions`, repeat: "ALWAYS" }, options);
  }

  /**
   * List withdrawals. The organization's withdrawals: its customers' and its own, unless type says
   * which. With idempotencyKey the one that has the key. With Accept: text/csv everything that the
   * filters leave comes as one table, as of one moment, without limit and cursor; one that breaks
   * off is cut, never ended. A cell that a spreadsheet would take for a formula has an apostrophe
   * before it.
   *
   * GET /withdrawals. The client repeats the call if no answer comes.
   */
  listWithdrawals(params: ListWithdrawalsParams = {}, options: CallOptions = {}): Promise<WithdrawalPage> {
    return this.#connection.call<WithdrawalPage>({ method: "GET", path: `/withdrawals`, repeat: "ALWAYS", query: { customerId: params.customerId, type: params.type, status: params.status, mintId: params.mintId, chain: params.chain, txHash: params.txHash, address: params.address, reference: params.reference, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listWithdrawals, page after page. */
  withdrawals(params: ListWithdrawalsParams = {}, options: CallOptions = {}): AsyncGenerator<Withdrawal, void, undefined> {
    return each(params.cursor, (cursor) => this.listWithdrawals({ ...params, cursor }, options));
  }

  /**
   * What listWithdrawals has as one table, without limit and cursor, read while it arrives. An error
   * while reading means that the table is not complete.
   */
  listWithdrawalsCSV(params: ListWithdrawalsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/withdrawals`, repeat: "ALWAYS", query: { customerId: params.customerId, type: params.type, status: params.status, mintId: params.mintId, chain: params.chain, txHash: params.txHash, address: params.address, reference: params.reference, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Ask what a withdrawal request would do. Takes the body of POST /withdraw, asks the same gates on
   * the same facts and moves nothing: the answer is what POST /withdraw would make of it now. What
   * POST /withdraw would refuse is refused here with the same status and code; details.gates has the
   * gates up to the one that refused. What it would answer 451 is 200 here, wouldBe is BLOCKED and
   * the gate RISK says BLOCK. The gate RISK is NOT_CONFIGURED, and passes, as long as this
   * installation screens nobody and your organization has set no threshold. With a known
   * idempotencyKey nothing would be made: wouldBe is then the status of the withdrawal that has it.
   *
   * POST /withdraw/preview. The client repeats the call if no answer comes.
   */
  previewWithdrawal(body: WithdrawRequest, options: CallOptions = {}): Promise<Preview> {
    return this.#connection.call<Preview>({ method: "POST", path: `/withdraw/preview`, repeat: "ALWAYS", body, key: body.idempotencyKey }, options);
  }

  /**
   * Move money between balances. Moves an amount between a customer and a product of yours, two
   * customers or two products: at once, without a chain. An unknown customer who receives is made.
   * The idempotencyKey is required: the same key and parameters again show the same transfer and
   * move nothing more. A key never expires. Every field but metadata is such a parameter, also
   * reference: another value under a known key is 409 IDEMPOTENCY_CONFLICT. A 4xx means that this
   * request moved nothing. After a 5xx or no answer, repeat with the same key.
   *
   * POST /transfers. It is repeated when no answer comes and it has an idempotencyKey; without one
   * it is sent once.
   */
  createTransfer(body: TransferRequest, options: CallOptions = {}): Promise<Transfer> {
    return this.#connection.call<Transfer>({ method: "POST", path: `/transfers`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * Read a transfer. One transfer.
   *
   * GET /transfers/{transferId}. The client repeats the call if no answer comes.
   */
  getTransfer(transferId: string, options: CallOptions = {}): Promise<Transfer> {
    return this.#connection.call<Transfer>({ method: "GET", path: `/transfers/${segment("transferId", transferId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read your own balances. One row for each product and mint that anything has touched. What
   * customers have is not yours: it stands beside CUSTODIAL as owedToCustomers and in no total.
   * total is available + pending.
   *
   * GET /balances. The client repeats the call if no answer comes.
   */
  listBalances(options: CallOptions = {}): Promise<ProductBalances> {
    return this.#connection.call<ProductBalances>({ method: "GET", path: `/balances`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read what moved balances. Every movement of a customer's or product's balance with the resource
   * that caused it: a statement. A transfer between two of them is two entries, a withdrawal moves
   * from AVAILABLE to PENDING_WITHDRAW and then away. With Accept: text/csv everything that the
   * filters leave comes as one table, as of one moment, without limit and cursor; one that breaks
   * off is cut, never ended. A cell that a spreadsheet would take for a formula has an apostrophe
   * before it.
   *
   * GET /ledger/entries. The client repeats the call if no answer comes.
   */
  listLedgerEntries(params: ListLedgerEntriesParams = {}, options: CallOptions = {}): Promise<EntryPage> {
    return this.#connection.call<EntryPage>({ method: "GET", path: `/ledger/entries`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, mintId: params.mintId, chain: params.chain, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listLedgerEntries, page after page. */
  ledgerEntries(params: ListLedgerEntriesParams = {}, options: CallOptions = {}): AsyncGenerator<Entry, void, undefined> {
    return each(params.cursor, (cursor) => this.listLedgerEntries({ ...params, cursor }, options));
  }

  /**
   * What listLedgerEntries has as one table, without limit and cursor, read while it arrives. An
   * error while reading means that the table is not complete.
   */
  listLedgerEntriesCSV(params: ListLedgerEntriesParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/ledger/entries`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, mintId: params.mintId, chain: params.chain, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * List transfers. The organization's transfers. idempotencyKey selects the transfer with this key. With
   * Accept: text/csv everything that the filters leave comes as one table, as of one moment, without
   * limit and cursor; one that breaks off is cut, never ended. A cell that a spreadsheet would take
   * for a formula has an apostrophe before it.
   *
   * GET /transfers. The client repeats the call if no answer comes.
   */
  listTransfers(params: ListTransfersParams = {}, options: CallOptions = {}): Promise<TransferPage> {
    return this.#connection.call<TransferPage>({ method: "GET", path: `/transfers`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, mintId: params.mintId, chain: params.chain, reference: params.reference, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listTransfers, page after page. */
  transfers(params: ListTransfersParams = {}, options: CallOptions = {}): AsyncGenerator<Transfer, void, undefined> {
    return each(params.cursor, (cursor) => this.listTransfers({ ...params, cursor }, options));
  }

  /**
   * What listTransfers has as one table, without limit and cursor, read while it arrives. An error
   * while reading means that the table is not complete.
   */
  listTransfersCSV(params: ListTransfersParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/transfers`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, mintId: params.mintId, chain: params.chain, reference: params.reference, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Make an additional API key. Makes a key beside the main one, which is shown in this answer and
   * never again. Off until the operator of this service switches additionalApiKeys on for your
   * organization. READ reads; NO_MONEY_OUT also writes what lets no money out; FULL makes every call
   * but those about API keys. At most 20 keys that have not expired. If the answer is lost, GET
   * /api-keys shows the key: delete or roll it.
   *
   * POST /api-keys. It is sent once.
   */
  createApiKey(body: ScopedKeyRequest, options: CallOptions = {}): Promise<ScopedKeyWithValue> {
    return this.#connection.call<ScopedKeyWithValue>({ method: "POST", path: `/api-keys`, repeat: "NEVER", body }, options);
  }

  /**
   * Delete an additional API key. Every value of the key is refused by every request that starts
   * after this one is answered. The main key is not deleted: 409.
   *
   * DELETE /api-keys/{apiKeyId}. The client repeats the call if no answer comes.
   */
  deleteApiKey(apiKeyId: string, options: CallOptions = {}): Promise<void> {
    return this.#connection.call<void>({ method: "DELETE", path: `/api-keys/${segment("apiKeyId", apiKeyId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List API keys. The main key and every additional one that was not deleted, without what is sent
   * in the header.
   *
   * GET /api-keys. The client repeats the call if no answer comes.
   */
  listApiKeys(params: ListApiKeysParams = {}, options: CallOptions = {}): Promise<ScopedKeyPage> {
    return this.#connection.call<ScopedKeyPage>({ method: "GET", path: `/api-keys`, repeat: "ALWAYS", query: { order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listApiKeys, page after page. */
  apiKeys(params: ListApiKeysParams = {}, options: CallOptions = {}): AsyncGenerator<ScopedKey, void, undefined> {
    return each(params.cursor, (cursor) => this.listApiKeys({ ...params, cursor }, options));
  }

  /**
   * Replace an API key. Makes a new value of the key, which is shown in this answer and never again.
   * The former value is refused by every request that starts after this one is answered, or works
   * for overlapSeconds more. An overlap of the main key needs additionalApiKeys, like every roll of
   * another key. Of two rolls at once one is done and the other is 409. If the answer is lost, roll
   * again: of the main key by its former value in its overlap, and without an overlap the operator
   * of this service rolls it. The body may be left out.
   *
   * POST /api-keys/{apiKeyId}/roll. It is sent once.
   */
  rollApiKey(apiKeyId: string, body: KeyRoll = {}, options: CallOptions = {}): Promise<ScopedKeyWithValue> {
    return this.#connection.call<ScopedKeyWithValue>({ method: "POST", path: `/api-keys/${segment("apiKeyId", apiKeyId)}/roll`, repeat: "NEVER", body }, options);
  }

  /**
   * Register a webhook endpoint. Events are sent to this URL from now on, signed with a secret that
   * is shown in this answer and never again. Without events it receives the seven events of the
   * interface; extension events are sent only where they are named. With filters only what concerns
   * that customer, or happened on that chain, is sent. At most 10 endpoints.
   *
   * POST /webhook-endpoints. It is sent once.
   */
  createWebhookEndpoint(body: EndpointRequest, options: CallOptions = {}): Promise<EndpointWithSecret> {
    return this.#connection.call<EndpointWithSecret>({ method: "POST", path: `/webhook-endpoints`, repeat: "NEVER", body }, options);
  }

  /**
   * Delete a webhook endpoint. Nothing more is sent there. What was not delivered stays readable
   * with GET /events.
   *
   * DELETE /webhook-endpoints/{endpointId}. The client repeats the call if no answer comes.
   */
  deleteWebhookEndpoint(endpointId: string, options: CallOptions = {}): Promise<void> {
    return this.#connection.call<void>({ method: "DELETE", path: `/webhook-endpoints/${segment("endpointId", endpointId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read a webhook endpoint. One endpoint, without its secret.
   *
   * GET /webhook-endpoints/{endpointId}. The client repeats the call if no answer comes.
   */
  getWebhookEndpoint(endpointId: string, options: CallOptions = {}): Promise<Endpoint> {
    return this.#connection.call<Endpoint>({ method: "GET", path: `/webhook-endpoints/${segment("endpointId", endpointId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read the progress of a resend or recovery. It is COMPLETED when everything has been made due;
   * pending, delivered and failed tell what came of it since.
   *
   * GET /webhook-jobs/{jobId}. The client repeats the call if no answer comes.
   */
  getWebhookJob(jobId: string, options: CallOptions = {}): Promise<WebhookJob> {
    return this.#connection.call<WebhookJob>({ method: "GET", path: `/webhook-jobs/${segment("jobId", jobId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read the event feed. The bodies that webhooks carry, byte for byte, in sequence from after on,
   * for 90 days. Without types it has every event and the sequences have no gap, so that a consumer
   * can prove that it missed nothing; a first sequence above after + 1 tells that something older
   * has left the feed. Continue with the last sequence you have seen.
   *
   * GET /events. The client repeats the call if no answer comes.
   */
  listEvents(params: ListEventsParams = {}, options: CallOptions = {}): Promise<EnvelopePage> {
    return this.#connection.call<EnvelopePage>({ method: "GET", path: `/events`, repeat: "ALWAYS", query: { after: params.after, types: params.types, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listEvents, page after page. */
  events(params: ListEventsParams = {}, options: CallOptions = {}): AsyncGenerator<Envelope, void, undefined> {
    return each(params.cursor, (cursor) => this.listEvents({ ...params, cursor }, options));
  }

  /**
   * Read the delivery attempts of a webhook endpoint. Every attempt with its request, without the signature,
   * and what came back: the status and the first 1024 bytes. Attempts are kept for 30 days.
   *
   * GET /webhook-endpoints/{endpointId}/deliveries. The client repeats the call if no answer comes.
   */
  listWebhookDeliveries(endpointId: string, params: ListWebhookDeliveriesParams = {}, options: CallOptions = {}): Promise<DeliveryAttemptPage> {
    return this.#connection.call<DeliveryAttemptPage>({ method: "GET", path: `/webhook-endpoints/${segment("endpointId", endpointId)}/deliveries`, repeat: "ALWAYS", query: { status: params.status, eventId: params.eventId, type: params.type, since: params.since, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listWebhookDeliveries, page after page. */
  webhookDeliveries(endpointId: string, params: ListWebhookDeliveriesParams = {}, options: CallOptions = {}): AsyncGenerator<DeliveryAttempt, void, undefined> {
    return each(params.cursor, (cursor) => this.listWebhookDeliveries(endpointId, { ...params, cursor }, options));
  }

  /**
   * List webhook endpoints. The webhook endpoints of this organization, without their secrets.
   *
   * GET /webhook-endpoints. The client repeats the call if no answer comes.
   */
  listWebhookEndpoints(params: ListWebhookEndpointsParams = {}, options: CallOptions = {}): Promise<EndpointPage> {
    return this.#connection.call<EndpointPage>({ method: "GET", path: `/webhook-endpoints`, repeat: "ALWAYS", query: { order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listWebhookEndpoints, page after page. */
  webhookEndpoints(params: ListWebhookEndpointsParams = {}, options: CallOptions = {}): AsyncGenerator<Endpoint, void, undefined> {
    return each(params.cursor, (cursor) => this.listWebhookEndpoints({ ...params, cursor }, options));
  }

  /**
   * Read the keys that sign webhooks. The public keys of the v1a signatures, newest first. A
   * signature by any of them is good.
   *
   * GET /.well-known/webhook-keys. The client repeats the call if no answer comes.
   */
  listWebhookKeys(options: CallOptions = {}): Promise<WebhookKeys> {
    return this.#connection.call<WebhookKeys>({ method: "GET", path: `/.well-known/webhook-keys`, repeat: "ALWAYS", open: true }, options);
  }

  /**
   * Send a webhook endpoint the events that it missed. Makes the events since that time due again, in their
   * order: with onlyFailed, which is the default, those that were never delivered there, also
   * because the endpoint was disabled or did not exist; without it all of them once more. What the
   * endpoint wants is decided by its events and filters as they are now. The job runs behind the
   * answer; the same request within ten minutes answers the same job, and one recovery of an
   * endpoint runs at a time.
   *
   * POST /webhook-endpoints/{endpointId}/recover. It is sent once.
   */
  recoverWebhookEndpoint(endpointId: string, body: RecoverRequest, options: CallOptions = {}): Promise<WebhookJob> {
    return this.#connection.call<WebhookJob>({ method: "POST", path: `/webhook-endpoints/${segment("endpointId", endpointId)}/recover`, repeat: "NEVER", body }, options);
  }

  /**
   * Send an event again. Sends the same bytes under the same webhook-id again: to the endpoint that
   * is named, or to every one that wants the event. The same request within five seconds answers the
   * same job, and what is on its way is not sent twice.
   *
   * POST /events/{eventId}/resend. It is sent once.
   */
  resendEvent(eventId: string, body: ResendRequest, options: CallOptions = {}): Promise<WebhookJob> {
    return this.#connection.call<WebhookJob>({ method: "POST", path: `/events/${segment("eventId", eventId)}/resend`, repeat: "NEVER", body }, options);
  }

  /**
   * Give a webhook endpoint a new secret. The new secret is shown in this answer and never again.
   * Every message carries a v1 signature by it from now on, and beside it one by the former secret
   * for 24 hours: replace it at your receiver meanwhile. If the answer is lost, ask again: every
   * secret signs on for 24 hours from its own replacement, at most 4 at once.
   *
   * POST /webhook-endpoints/{endpointId}/rotate-secret. It is sent once.
   */
  rotateWebhookSecret(endpointId: string, options: CallOptions = {}): Promise<RotatedSecret> {
    return this.#connection.call<RotatedSecret>({ method: "POST", path: `/webhook-endpoints/${segment("endpointId", endpointId)}/rotate-secret`, repeat: "NEVER" }, options);
  }

  /**
   * Send a sample to a webhook endpoint. Posts a realistic sample of that type to this endpoint
   * alone, also while it is paused or disabled, and answers what came back within 15 seconds. The
   * sample has environment TEST, no sequence, and tells of nothing that happened. It is not tried
   * again, does not count for or against the endpoint, and stands in the log.
   *
   * POST /webhook-endpoints/{endpointId}/test. It is sent once.
   */
  testWebhookEndpoint(endpointId: string, body: TestRequest, options: CallOptions = {}): Promise<DeliveryAttempt> {
    return this.#connection.call<DeliveryAttempt>({ method: "POST", path: `/webhook-endpoints/${segment("endpointId", endpointId)}/test`, repeat: "NEVER", body }, options);
  }

  /**
   * Change a webhook endpoint. Changes what is given and nothing else; filters are replaced as a
   * whole, and {} takes them away. While PAUSED its deliveries wait. With ENABLED, which also brings
   * a disabled endpoint back, and with another url, everything that waits is due at once, in the
   * order of each resource and with the whole schedule before it. Other events and filters decide
   * about what happens from now on; what waits is still sent. What happened while an endpoint was
   * disabled was not queued for it: ask for that with recover.
   *
   * PATCH /webhook-endpoints/{endpointId}. The client repeats the call if no answer comes.
   */
  updateWebhookEndpoint(endpointId: string, body: EndpointChange, options: CallOptions = {}): Promise<Endpoint> {
    return this.#connection.call<Endpoint>({ method: "PATCH", path: `/webhook-endpoints/${segment("endpointId", endpointId)}`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Read this document. This description of every call, OpenAPI 3.1.
   *
   * GET /openapi.json. The client repeats the call if no answer comes.
   */
  getOpenAPI(options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.#connection.call<Record<string, unknown>>({ method: "GET", path: `/openapi.json`, repeat: "ALWAYS", open: true }, options);
  }
}
