// Drawn from internal/http/api/openapi.json by make generate. Do not edit.

import { type CallOptions, Connection, type Options, each, segment } from "./http.js";

/** The codes of refusals. Codes are added without notice. */
export type Code =
  | "ADDRESS_NOT_WHITELISTED"
  | "AMOUNT_BELOW_MINIMUM"
  | "APPROVAL_REFUSED"
  | "BODY_TOO_LARGE"
  | "CUSTOMER_FROZEN"
  | "DEPOSITS_SUSPENDED"
  | "DEPOSIT_NOT_FLAGGED"
  | "DESTINATION_NOT_ALLOWED"
  | "DUPLICATE_BATCH"
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
  | "INVALID_PAIR"
  | "INVALID_REQUEST"
  | "INVALID_STATE"
  | "IP_NOT_ALLOWED"
  | "MINT_NOT_FOUND"
  | "NOT_ACCEPTABLE"
  | "NOT_FOUND"
  | "OPERATOR_ONLY"
  | "OPTION_UNAVAILABLE"
  | "ORGANIZATION_FROZEN"
  | "ORGANIZATION_SWAPS_DISABLED"
  | "PRODUCT_ARCHIVED"
  | "PROVIDER_ERROR"
  | "PROVIDER_TIMEOUT"
  | "QUOTE_REJECTED"
  | "RATE_LIMITED"
  | "REFERENCE_PAID"
  | "REFUND_EXCEEDS_PAYMENT"
  | "REFUND_NOT_RECEIVED"
  | "REJECT_BLOCKED_SANCTIONS"
  | "RESOLUTION_IN_PROGRESS"
  | "RESOLUTION_STUCK"
  | "SAME_ACCOUNT"
  | "SCOPE_MISSING"
  | "STATUS_NOT_PATCHABLE"
  | "SWAPS_DISABLED"
  | "UNAUTHORIZED"
  | "UNAVAILABLE"
  | "UNKNOWN_FIELD"
  | "UNSUPPORTED_MEDIA_TYPE"
  | "WITHDRAWALS_SUSPENDED"
  | "WITHDRAWAL_RISK_BLOCKED"
  | (string & {});

/** Says why what was paid is enough. */
export interface AcceptRequest {
  /**
   * Why what was paid is enough: 1 to 1,000 characters. It is kept with the checkout and in the
   * audit log.
   */
  reason: string;
}

/** The person or key that decided. */
export interface Actor {
  /** The id of the actor: of the key for an additional API key, of the organization for the main key. */
  id: string;
  /** The name of the actor. */
  name: string | null;
  /** The kind of actor. */
  type: string;
}

/** The signer's statement about an address: which organization, purpose and checkout it belongs to. */
export interface AddressProof {
  /** The kind of address: EVM, SOLANA or BITCOIN. All EVM chains share an address. */
  family: string;
  /** Where the signer has the key of the address. */
  path: string;
  /**
   * CHECKOUT: the address of one checkout. CHECKOUT_SHARED: the address of all checkouts of the
   * organization.
   */
  purpose: "CHECKOUT" | "CHECKOUT_SHARED";
  /** The ed25519 signature of the signer's attestation key, in base64. */
  signature: string;
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

/** Names the checkout whose payment it is. */
export interface AssignRequest {
  /** The checkout. */
  checkoutId: string;
}

/** A customer's balance of one mint. */
export interface Balance {
  /** The amount that can be spent. */
  available: string;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** Deposits that risk screening flagged. The total does not include them. */
  held: string;
  /** Held for swaps that have not ended, and what came back from failed ones until you restore it. */
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

/** A list of payments of your own money that people approve as a whole, by its contentHash. */
export interface BatchPayout {
  /**
   * How many of the needed approvals it has. Only people approve, and never the one who made or
   * submitted it.
   */
  approvals: Approvals;
  /** When it had every approval; null before. */
  approvedAt: string | null;
  /** The id of the batch payout, bp_… */
  batchPayoutId: string;
  /**
   * What is submitted and approved: one SHA-256 over every field of every row, with mode, counts and
   * totals. PARTIAL: it changes when a row is left out.
   */
  contentHash: string;
  /** What became of the rows that it pays, as of now. */
  counts: BatchPayoutCounts;
  /** When it was created. */
  createdAt: string;
  /** When it came to its last status; null before. */
  endedAt: string | null;
  /**
   * What the networks would take for the rows that are not paid yet, in dollars, at most and each
   * row in a transaction of its own. null without an answer of a chain or a recent price, once it
   * was approved, and in every answer but those of POST and GET of one batch.
   */
  estimatedNetworkFeeUsd: string | null;
  /** The key of the request that made it; null if the request had none. */
  idempotencyKey: string | null;
  /** How many it does not pay, because they cannot be read or paid. */
  invalidCount: number;
  /** How many rows the list has. */
  itemCount: number;
  /**
   * STRICT: one row that cannot be paid makes the whole batch INVALID. PARTIAL: such rows are left
   * out.
   */
  mode: "STRICT" | "PARTIAL";
  /** Why the service paused it, for a person; null if a person did, or if it is not paused. */
  pauseReason: string | null;
  /** Whether no further row is paid until the batch is resumed. */
  paused: boolean;
  /** When it was paused; null if it is not. */
  pausedAt: string | null;
  /** Why it is INVALID or REJECTED, for a person; null otherwise. */
  problem: string | null;
  /** The batch payout whose unpaid rows it pays again; null if it is none. */
  retryOf: string | null;
  /**
   * DRAFT: nothing is held. VALIDATING: its sum is held, and its rows are checked. INVALID: it
   * cannot be paid, see problem. AWAITING_APPROVAL: people look at its contentHash. PROCESSING: its
   * rows are being paid. COMPLETED: every row was paid. PARTIALLY_COMPLETED: some were. FAILED: none
   * was. REJECTED: a person refused it. CANCELLED: you took it back, and no row was paid. After
   * INVALID, REJECTED and CANCELLED its sum is in the balance of BATCH_PAYOUT again, and so is the
   * amount of each row that ended unpaid.
   */
  status: string;
  /** When it was cancelled while its rows were being paid; null otherwise. */
  stoppedAt: string | null;
  /** When its sum was held; null before. */
  submittedAt: string | null;
  /** What its rows pay together, by mint. */
  totals: BatchPayoutTotal[];
  /** How many of them it pays. */
  validCount: number;
}

/** What became of the rows that a batch payout pays. */
export interface BatchPayoutCounts {
  /** Rows whose payment is final. */
  paid: number;
  /** Rows that a withdrawal is paying. */
  processing: number;
  /** Rows that ended without a payment. Their amounts are in the balance of BATCH_PAYOUT again. */
  unpaid: number;
  /** Rows without a payment yet. */
  waiting: number;
}

/** A row of a batch payout, with what became of it. */
export interface BatchPayoutItem {
  /**
   * What the payee receives, in atomic units. In a row that cannot be read, the text as it was
   * given.
   */
  amount: string;
  /** Your label, or null. */
  customerId: string | null;
  /** Whether the batch pays the row. */
  included: boolean;
  /**
   * Its line in the text of a CSV list, whose header is line 1; in a JSON list the number of the
   * row.
   */
  line: number;
  /** The memo that belongs to the address; null on a chain without memos. */
  memo: string | null;
  /** What is paid; null in a row whose mint cannot be read. */
  mintId: number | null;
  /**
   * What the network took for it, in atomic units of the native coin of its chain; null until that
   * is final.
   */
  networkFee: string | null;
  /** Its position in the list, from 1, which problems name. */
  position: number;
  /** Why it is not paid, or what it waits for, for a person; null if there is nothing to say. */
  reason: string | null;
  /** Your own reference of the payment. */
  reference: string | null;
  /**
   * The number of the row, which its withdrawal, its proof and its warnings name: from 1, without
   * those that cannot be read. null for a row that cannot be read.
   */
  row: number | null;
  /**
   * UNREADABLE: the row cannot be read, see problems of the batch. EXCLUDED: the batch leaves it
   * out. REFUSED: it is never paid by this batch. WAITING: it has no payment yet. Otherwise the
   * status of the withdrawal that pays it. After REFUSED, FAILED, REJECTED and CANCELLED its amount
   * is in the balance of BATCH_PAYOUT again. Statuses may be added without notice.
   */
  status: string;
  /**
   * Where it goes, in the canonical form of its chain. In a row that cannot be read, the text as it
   * was given.
   */
  toAddress: string;
  /** The hash of its transaction; null before it has one. */
  txHash: string | null;
  /** The withdrawal that pays it; null without one. */
  withdrawalId: string | null;
}

/** A page of rows. */
export interface BatchPayoutItemPage {
  /** The items, in order. */
  data: BatchPayoutItem[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** A page of batch payouts. */
export interface BatchPayoutPage {
  /** The items, in order. */
  data: BatchPayout[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** What is wrong with one value of one row. */
export interface BatchPayoutProblem {
  /** The value; null for the row as a whole. */
  column: string | null;
  /**
   * Its line in the text of a CSV list, whose header is line 1; in a JSON list the number of the
   * row.
   */
  line: number;
  /** What is wrong, for a person. */
  message: string;
  /** The position of the row in the list, from 1. */
  position: number;
}

/** Proves that people approved a row of a batch payout. */
export interface BatchPayoutProof {
  /** What people approved. */
  contentHash: string;
  /** What contentHash covers beside the rows. */
  header: BatchPayoutProofHeader;
  /** The hashes that lead from the leaf to the root, as RFC 6962 defines them. */
  path: string[];
  /** The row, whose hash is a leaf of the tree. */
  row: BatchPayoutProofRow;
}

/** What the rows of a batch payout have in common. */
export interface BatchPayoutProofHeader {
  /** The batch payout. */
  batchId: string;
  /** How many of them it pays. */
  included: number;
  /** Who made it, and never approves it. */
  madeBy: string;
  /** STRICT or PARTIAL. */
  mode: string;
  /** Your organization. */
  orgId: string;
  /** The root of the tree of rows. */
  root: string;
  /** How many rows the list has. */
  rows: number;
  /** What they pay together, by mint. */
  totals: BatchPayoutProofTotal[];
}

/** A row as its hash covers it. */
export interface BatchPayoutProofRow {
  /** The amount in atomic units. */
  amount: string;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** The token's contract; empty for the native coin of the chain. */
  contract: string;
  /** Your label, or empty. */
  customerId: string;
  /** Whether the batch pays the row. */
  included: boolean;
  /** Empty: no chain of this installation has memos. */
  memo: string;
  /** The mint: a token on a chain. */
  mintId: number;
  /** Your own reference, or empty. */
  reference: string;
  /** The row, from 1. */
  row: number;
  /** 16 random bytes in base64, so that the proof of one row says nothing about the row beside it. */
  salt: string;
  /** Where it goes, in the canonical form of its chain. */
  toAddress: string;
}

/** What a batch payout pays of one mint. */
export interface BatchPayoutProofTotal {
  /** The amount in atomic units. */
  amount: string;
  /** The mint: a token on a chain. */
  mintId: number;
}

/** A batch payout with what is wrong with its rows, and what a person should look at. */
export interface BatchPayoutReport {
  /**
   * How many of the needed approvals it has. Only people approve, and never the one who made or
   * submitted it.
   */
  approvals: Approvals;
  /** When it had every approval; null before. */
  approvedAt: string | null;
  /** The id of the batch payout, bp_… */
  batchPayoutId: string;
  /**
   * What is submitted and approved: one SHA-256 over every field of every row, with mode, counts and
   * totals. PARTIAL: it changes when a row is left out.
   */
  contentHash: string;
  /** What became of the rows that it pays, as of now. */
  counts: BatchPayoutCounts;
  /** When it was created. */
  createdAt: string;
  /** When it came to its last status; null before. */
  endedAt: string | null;
  /**
   * What the networks would take for the rows that are not paid yet, in dollars, at most and each
   * row in a transaction of its own. null without an answer of a chain or a recent price, once it
   * was approved, and in every answer but those of POST and GET of one batch.
   */
  estimatedNetworkFeeUsd: string | null;
  /** The key of the request that made it; null if the request had none. */
  idempotencyKey: string | null;
  /** How many it does not pay, because they cannot be read or paid. */
  invalidCount: number;
  /** How many rows the list has. */
  itemCount: number;
  /**
   * STRICT: one row that cannot be paid makes the whole batch INVALID. PARTIAL: such rows are left
   * out.
   */
  mode: "STRICT" | "PARTIAL";
  /** Why the service paused it, for a person; null if a person did, or if it is not paused. */
  pauseReason: string | null;
  /** Whether no further row is paid until the batch is resumed. */
  paused: boolean;
  /** When it was paused; null if it is not. */
  pausedAt: string | null;
  /** Why it is INVALID or REJECTED, for a person; null otherwise. */
  problem: string | null;
  /** What is wrong with rows that cannot be read, all of it. */
  problems: BatchPayoutProblem[];
  /** The batch payout whose unpaid rows it pays again; null if it is none. */
  retryOf: string | null;
  /**
   * DRAFT: nothing is held. VALIDATING: its sum is held, and its rows are checked. INVALID: it
   * cannot be paid, see problem. AWAITING_APPROVAL: people look at its contentHash. PROCESSING: its
   * rows are being paid. COMPLETED: every row was paid. PARTIALLY_COMPLETED: some were. FAILED: none
   * was. REJECTED: a person refused it. CANCELLED: you took it back, and no row was paid. After
   * INVALID, REJECTED and CANCELLED its sum is in the balance of BATCH_PAYOUT again, and so is the
   * amount of each row that ended unpaid.
   */
  status: string;
  /** When it was cancelled while its rows were being paid; null otherwise. */
  stoppedAt: string | null;
  /** When its sum was held; null before. */
  submittedAt: string | null;
  /** What its rows pay together, by mint. */
  totals: BatchPayoutTotal[];
  /** How many of them it pays. */
  validCount: number;
  /** What a person should look at before the batch is submitted. */
  warnings: BatchPayoutWarning[];
}

/** Makes a batch payout of a list of payments. */
export interface BatchPayoutRequest {
  /**
   * Your name for this batch: 1 to 255 printable ASCII characters without a space. It never expires.
   * Without it every call makes another one.
   */
  idempotencyKey?: string | null;
  /**
   * What one row that cannot be paid does. STRICT, also if it is left out: nothing is paid. PARTIAL:
   * the row is left out, and the others are paid.
   */
  mode?: string | null;
  /** The payments, in the order in which they are numbered: 1 to 5,000. */
  rows: BatchPayoutRow[];
  /** Whether amounts are in whole tokens, such as 1.5, instead of atomic units. */
  useDecimal?: boolean;
}

/** Makes a batch payout of the unpaid rows of another one. */
export interface BatchPayoutRetry {
  /** Your name for the new batch, as in POST /batch-payouts. */
  idempotencyKey?: string | null;
}

/** A payment of a list. */
export interface BatchPayoutRow {
  /**
   * Whole atomic units, or whole tokens with useDecimal: ASCII digits without sign, exponent and
   * separator. Every row needs it.
   */
  amount?: string | null;
  /**
   * A label of your own. It makes no customer and moves no customer's money; of a customer whom you
   * know and who is frozen, the row is not paid.
   */
  customerId?: string | null;
  /** Leave it out: no chain of this installation has memos. */
  memo?: string | null;
  /** What is paid. Every row needs it. */
  mintId?: number | null;
  /** Your own reference of the payment, up to 255 bytes. Its events carry it. */
  reference?: string | null;
  /** Where it goes, on the chain of the mint. Every row needs it. */
  toAddress?: string | null;
}

/** Submits a batch payout by its contentHash. */
export interface BatchPayoutSubmission {
  /** The batch payout that existingId named, if the same list is meant to be paid once more. */
  acknowledgeDuplicateOf?: string | null;
  /** The contentHash that you saw. */
  contentHash: string;
  /** The rows whose warnings with needsTick a person has looked at. */
  ticked?: number[];
}

/** What a batch payout pays of one mint. */
export interface BatchPayoutTotal {
  /** The amount in atomic units. */
  amount: string;
  /** The mint: a token on a chain. */
  mintId: number;
  /**
   * The value of the amount in dollars, rounded to cents; null without a recent price, and in
   * events.
   */
  usdValue: string | null;
}

/** Something about one row that a person should look at. */
export interface BatchPayoutWarning {
  /**
   * DUPLICATE_ROW: an earlier row pays the same amount to the same address. REFERENCE_SEEN: a
   * payment of the last 90 days has the same reference. LOOK_ALIKE: the address resembles a known
   * one. FIRST_PAYMENT: your organization has never paid the address. Kinds may be added without
   * notice.
   */
  kind: string;
  /** The warning, for a person. */
  message: string;
  /** Whether the submission has to name the row in ticked. */
  needsTick: boolean;
  /** The number of the row. */
  row: number;
}

/**
 * One sale: what its payer owes, how it can be paid, and what was paid. Deliver on
 * CHECKOUT_COMPLETED, once for each checkoutId.
 */
export interface Checkout {
  /** The reason that was given for it; null without such a decision. */
  acceptReason: string | null;
  /** The person or key that accepted what was paid; null if none had to. */
  acceptedBy: Actor | null;
  /** The mints in which it can be paid. */
  acceptedMintIds: number[];
  /** What the payer owes. */
  amountDue: string;
  /** How much more is credited than was due. */
  amountOverpaid: string;
  /**
   * What the credited payments count, in the currency of the checkout: each by the price of its own
   * moment.
   */
  amountPaid: string;
  /**
   * What the credited payments count in dollars; null if a payment counts without a price in
   * dollars, which happens where the currency is the symbol of its mint.
   */
  amountPaidUsd: string | null;
  /** What is still to be paid, less what is in blocks; 0 once enough is paid. */
  amountRemaining: string;
  /** Where the payer is led who gives up; null for nowhere. */
  cancelUrl: string | null;
  /** When it was cancelled; null if it was not. */
  cancelledAt: string | null;
  /** The checkout. */
  checkoutId: string;
  /** When it was completed; null until it is. */
  completedAt: string | null;
  /** When it was created. */
  createdAt: string;
  /** The currency of its amounts: USD, or the symbol of an accepted mint. */
  currency: string;
  /** The payer's e-mail, as the request had it; null for none. */
  customerEmail: string | null;
  /** Your own name for the payer; null for none. It makes no customer, and no payer sees it. */
  customerId: string | null;
  /** More about its state. */
  details: CheckoutDetails;
  /** The most severe exception, or NONE. details has all of them. */
  exception: "FLAGGED" | "REVERSED" | "WRONG_TOKEN" | "OVERPAID" | "PAID_LATE" | "UNDERPAID" | "REFUNDED" | "NONE";
  /** Until when a payment is in time. A first part moves it once, to at least 30 minutes later. */
  expiresAt: string;
  /** The key of the request that made it; null if the request had none. */
  idempotencyKey: string | null;
  /** What is sold, as it was when the checkout was made. */
  lineItems: LineItem[];
  /** The payment link through which it was sold; null for none. */
  linkId: string | null;
  /** Your own keys and values. */
  metadata: Record<string, string>;
  /** Whether no other checkout of this reference can be open or paid. */
  onePerReference: boolean;
  /**
   * How it can be paid: one for each accepted mint, in their order. An option has an address once it
   * is opened.
   */
  paymentOptions: PaymentOption[];
  /** What arrived for it, the oldest first. */
  payments: CheckoutPayment[];
  /** Your own reference, such as the number of an order; null for none. */
  reference: string | null;
  /**
   * Its newest refund, and in CHECKOUT_REFUNDED the one that was paid; null without one. GET
   * /refunds has all of them.
   */
  refund: Refund | null;
  /**
   * OPEN: it waits for payments. PROCESSING: enough is in blocks that are not final. COMPLETED:
   * enough is credited, or a person accepted what is. EXPIRED: its time is over. CANCELLED: you
   * ended it. EXPIRED and CANCELLED can still become PROCESSING or COMPLETED when money arrives
   * late.
   */
  status: "OPEN" | "PROCESSING" | "COMPLETED" | "EXPIRED" | "CANCELLED";
  /** Where the payer is led after the payment; null for nowhere. */
  successUrl: string | null;
  /** When it last changed. */
  updatedAt: string;
  /**
   * The page on which the payer pays; null without one. The part after # allows the payer's actions,
   * so give the whole address to the payer alone.
   */
  url: string | null;
}

/** More about the state of a checkout. */
export interface CheckoutDetails {
  /** Everything unusual about it, the most severe first. */
  exceptions: ("FLAGGED" | "REVERSED" | "WRONG_TOKEN" | "OVERPAID" | "PAID_LATE" | "UNDERPAID" | "REFUNDED")[];
}

/** A page of checkouts. */
export interface CheckoutPage {
  /** The items, in order. */
  data: Checkout[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** What arrived for a checkout: one deposit. */
export interface CheckoutPayment {
  /** The amount in atomic units. */
  amount: string;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** Whether it counts for the checkout. */
  counts: boolean;
  /** The id of the deposit. The same transfer on the chain always has the same id. */
  depositId: string;
  /** Whether it was made after the time of the checkout, or after its cancellation. */
  isLate: boolean;
  /** The mint; null for a token that the catalogue does not list. */
  mintId: number | null;
  /** The moment by which it is judged: the time of its block, as far as that is believed. */
  paidAt: string;
  /** The price of one whole token in dollars by which it counts; null without one. */
  price: string | null;
  /**
   * Who said the price. OWN_SYMBOL: the currency of the checkout is the symbol of the mint, and no
   * price was needed. Sources may be added without notice.
   */
  priceSource: string | null;
  /** When that price held; null until it is valued. */
  pricedAt: string | null;
  /**
   * SEEN: in a block, not final or not screened. CREDITED: in the balance of your product CHECKOUT.
   * FLAGGED: held by risk screening. RETURNED: sent back or elsewhere after that. ORPHANED: its
   * block is gone. REVERSED: its block is gone after the credit. UNUSABLE: an unknown token, or
   * below the least deposit.
   */
  status: "SEEN" | "CREDITED" | "FLAGGED" | "RETURNED" | "ORPHANED" | "REVERSED" | "UNUSABLE";
  /** The hash of the transaction. */
  txHash: string;
  /** The same in dollars, for display; null without a price in dollars. */
  usdValue: string | null;
  /** What it counts in the currency of the checkout; null until it is valued, and for what cannot be. */
  value: string | null;
}

/** Makes a checkout of lineItems, of one productId, or of a name with a price. */
export interface CheckoutRequest {
  /**
   * The mints in which it can be paid, in your order: some of those that the products accept. If it
   * is left out, all of them; for something that is no product, all that take deposits.
   */
  acceptedMintIds?: number[];
  /** Where the payer is led who gives up; that of the first product with one if it is left out. */
  cancelUrl?: string | null;
  /** The currency of price: USD, or the symbol of an accepted mint; USD if it is left out. */
  currency?: string | null;
  /** The payer's e-mail, for you. Nothing is sent to it. */
  customerEmail?: string | null;
  /**
   * Your own name for the payer, in the form of a customer's id. It makes no customer, and no payer
   * sees it.
   */
  customerId?: string | null;
  /** For how many seconds it can be paid; 1800 if it is left out. */
  expiresInSeconds?: number | null;
  /**
   * Your name for this checkout: 1 to 255 printable ASCII characters without a space. It never
   * expires. Without it every call makes another one.
   */
  idempotencyKey?: string | null;
  /**
   * The products that are sold, at most 50 positions of one currency. What all of them accept can be
   * paid.
   */
  lineItems?: LineItemRequest[];
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata?: Record<string, string>;
  /** The name of something that is no product, for payers. It needs price. */
  name?: string | null;
  /**
   * Whether no other checkout of this reference can be open or paid; as the products say if it is
   * left out. It needs reference.
   */
  onePerReference?: boolean | null;
  /**
   * Accepted mints whose options are opened by this call. One that cannot be opened now stays
   * without an address, and the checkout exists: POST /checkouts/{checkoutId}/options says why.
   */
  openMintIds?: number[];
  /** The price of what name says, in the form of a product's price. */
  price?: string | null;
  /** One product, instead of lineItems. */
  productId?: string | null;
  /** How many pieces of productId; 1 if it is left out. */
  quantity?: number | null;
  /** Your own reference, such as the number of an order. */
  reference?: string | null;
  /** Where the payer is led after the payment; that of the first product with one if it is left out. */
  successUrl?: string | null;
  /**
   * The price of one piece of productId that the payer chose. A product with an open price needs it,
   * and no other has it.
   */
  unitPrice?: string | null;
}

/** Gives back a part of an invoice. CREDIT_NOTE_ISSUED tells that it was issued. */
export interface CreditNote {
  /** Who was billed. */
  buyer: InvoiceParty;
  /** The id of the credit note. */
  creditNoteId: string;
  /** The invoice that it corrects. */
  invoiceId: string;
  /** The number of that invoice. */
  invoiceNumber: string;
  /** When it was issued. */
  issuedAt: string;
  /** Its number, in a series of its own. */
  number: string;
  /** Why. */
  reason: string;
  /** The sums of what is given back, by kind and mint. */
  sections: InvoiceSection[];
  /** Who billed. */
  seller: InvoiceParty;
  /** The sum of the sections in dollars. */
  subtotal: string;
  /** The tax on it in dollars. */
  tax: string;
  /** The rate of the tax, in basis points. */
  taxRateBps: number;
  /** What is given back in dollars. */
  total: string;
}

/** A page of credit notes. */
export interface CreditNotePage {
  /** The items, in order. */
  data: CreditNote[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** What the next invoice would have, as of now. */
export interface CurrentBill {
  /** When the month ends. */
  endsAt: string;
  /** The current month in UTC. */
  month: string;
  /** The sums of the fees that are on no invoice, by kind and mint. */
  sections: InvoiceSection[];
  /** The sum of the sections in dollars, without tax. With a minus sign while credits are more. */
  subtotal: string;
  /** How many fees have no price yet, and are in no sum. */
  unpriced: number;
}

/** One of your customers. */
export interface Customer {
  /** When it was created. */
  createdAt: string;
  /** The customer's e-mail. This field sets it while none is known, and never changes it. */
  customerEmail: string | null;
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
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
   * The customer's new e-mail. If it differs from the known one, no allowlist counts it for 24
   * hours.
   */
  customerEmail?: string;
  /**
   * Your own keys and values. They replace all earlier ones: at most 20 keys of up to 40 characters,
   * values of up to 500.
   */
  metadata?: Record<string, string>;
}

/**
 * The part of the costs of a withdrawal that the customer pays, by the setting and the prices at
 * the time of the request.
 */
export interface CustomerCharge {
  /** What was taken from the customer; null without a charge, and until the payment has ended. */
  charged: string | null;
  /**
   * Which costs: the rent of an account that is created for the payee, or the rent and the network
   * fee of a payment that failed because of its payee.
   */
  costs: "RENT" | "RENT_AND_FAILURES";
  /**
   * The most that the service takes out of the held amount when the payment fails because of its
   * payee; null when it takes nothing.
   */
  failureMax: string | null;
  /** The mint of these amounts, which is the withdrawn one. */
  mintId: number;
  /**
   * What is held in addition to the amount for an account of the payee. The customer gets back what
   * the payment did not cost.
   */
  rentMax: string;
}

/** A page of customers. */
export interface CustomerPage {
  /** The items, in order. */
  data: Customer[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** A customer swap. */
export interface CustomerSwap {
  /** The amount that the customer gives, in atomic units of the source mint. */
  amountIn: string;
  /**
   * The amount that arrived, in atomic units of the destination mint; null until the swap is
   * COMPLETED.
   */
  amountOut: string | null;
  /** When the delivery was credited; null until the swap is COMPLETED. */
  completedAt: string | null;
  /** When it was created. */
  createdAt: string;
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
   */
  customerId: string;
  /** The deposit that completes the swap; null until the swap is COMPLETED. */
  depositId: string | null;
  /** The hash of the transaction that delivered; null until the delivery is final. */
  destinationTxHash: string | null;
  /**
   * The amount that the provider offers, less its fees and the cost of the delivery, in atomic units
   * of the destination mint.
   */
  estimatedAmountOut: string;
  /** How long the provider expects the swap to take; null if it does not say. */
  estimatedTimeSeconds: number | null;
  /** A sentence about the failure for a person; null without one. */
  failureMessage: string | null;
  /**
   * Why the swap failed: SLIPPAGE_EXCEEDED, DEADLINE_EXPIRED, INCOMPLETE_DEPOSIT, ORIGIN_TX_FAILED,
   * NO_LIQUIDITY, PROVIDER_REFUNDED, PROVIDER_FAILED, PROVIDER_COMPLIANCE, DESTINATION_UNAVAILABLE,
   * DEPOSIT_REORGED or UNKNOWN; null unless the swap is FAILED. Reasons may be added without notice.
   */
  failureReason: string | null;
  /**
   * The fee of the platform, in atomic units of the source mint. Your organization is billed for it
   * when the swap is completed, and it is never taken from the swap.
   */
  feeAmount: string;
  /** The rate of feeAmount, in basis points. */
  feeBps: number;
  /** The mint that the customer gives. */
  fromMintId: number;
  /**
   * The key of the request that made the swap; empty if the swap was restored from the signer's
   * journal, which has only a hash of the key.
   */
  idempotencyKey: string;
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata: Record<string, string>;
  /**
   * The least amount that the offer allows the provider to deliver, in atomic units of the
   * destination mint.
   */
  minAmountOut: string;
  /** The hash of the transaction that paid the swap provider; null until it is broadcast. */
  originTxHash: string | null;
  /** The swap provider. Providers may be added without notice. */
  provider: string;
  /**
   * How far a refund has come, by final blocks. NONE: nothing came back. PENDING: the provider
   * announces a refund. PARTIAL: a part came back. REFUNDED: all came back, less what the provider
   * keeps. RESTORED: the customer's balance has what came back. UNAVAILABLE: the provider says that
   * there will be no refund. MANUAL: a person at the provider decides.
   */
  refundStatus: "NONE" | "PENDING" | "PARTIAL" | "REFUNDED" | "RESTORED" | "UNAVAILABLE" | "MANUAL";
  /** The hash of the latest transaction that brought a refund; null without one. */
  refundTxHash: string | null;
  /**
   * The amount that came back, in atomic units of the source mint; null while nothing has. It is
   * amountIn if the payment never left.
   */
  refundedAmount: string | null;
  /** When all that came back was restored to the customer's balance; null before. */
  restoredAt: string | null;
  /**
   * PENDING: the amount is held and the payment to the provider is not broadcast. DEPOSITING: the
   * payment is broadcast. PROCESSING: the provider has the payment, or a part of the delivery
   * arrived. COMPLETED: the delivery is final and credited. FAILED: no delivery is credited any
   * more.
   */
  status: "PENDING" | "DEPOSITING" | "PROCESSING" | "COMPLETED" | "FAILED";
  /** The customer swap. */
  swapId: string;
  /** The mint that the customer receives. */
  toMintId: number;
  /** When it last changed. */
  updatedAt: string;
  /**
   * The value of amountIn in dollars when the swap was made, for display; null when there was no
   * price.
   */
  usdValue: string | null;
}

/** A page of customer swaps. */
export interface CustomerSwapPage {
  /** The items, in order. */
  data: CustomerSwap[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** One decision about a withdrawal. It cannot be changed. */
export interface Decision {
  /**
   * REQUESTED, APPROVED, APPROVAL_ADDED (a person approved, and more approvals are needed),
   * APPROVAL_REFUSED (the rules refused it when they were evaluated again), RETURNED (the signer or
   * the chain sent it back), REMOVED or CANCELLED. Values may be added without notice.
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

/** What the service records with a decision. */
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
   * The status of the delivery to this endpoint: PENDING while the service tries, DELIVERED, FAILED
   * after the whole schedule, or CANCELLED with its endpoint.
   */
  deliveryStatus: "PENDING" | "DELIVERED" | "FAILED" | "CANCELLED";
  /** How long the attempt took, in milliseconds. */
  durationMs: number;
  /** Why the attempt failed, in plain words; null when the event was delivered. */
  error: string | null;
  /** The event. */
  eventId: string;
  /**
   * The earliest time of the next attempt; null when there is none, or when there was a later
   * attempt.
   */
  nextAttemptAt: string | null;
  /** The request. */
  request: DeliveryRequest;
  /** The answer; null without an answer. */
  response: DeliveryResponse | null;
  /** DELIVERED, or FAILED with the error. */
  status: "DELIVERED" | "FAILED";
  /** Whether the event is a sample that was requested. */
  test: boolean;
  /** The type of the event. */
  type: string;
}

/** A page of attempts. */
export interface DeliveryAttemptPage {
  /** The items, in order. */
  data: DeliveryAttempt[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** The request of the attempt. */
export interface DeliveryRequest {
  /** The body, byte for byte; null once the event is older than 90 days. */
  body: string | null;
  /** The headers, without webhook-signature. */
  headers: Record<string, string>;
  /** The URL of the request. */
  url: string;
}

/** The answer of the receiver. */
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
  /** The amount in atomic units. */
  amount: string;
  /** The amount in whole tokens. */
  amountDecimal: string | null;
  /** The number of the block. A reorganization can change it. */
  blockNumber: number | null;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** The status on the chain. */
  chainStatus: "PENDING" | "INCLUDED" | "FINALIZED" | "REORGED";
  /**
   * The checkout at whose own address it arrived. Only such a deposit has it: where checkouts share
   * an address, the checkout names its payments.
   */
  checkoutId?: string | null;
  /** The number of confirmations. */
  confirmations: number;
  /**
   * How many confirmations to show to people until a deposit counts. The service decides by
   * finality.
   */
  confirmationsRequired: number;
  /** When its block became final. */
  confirmedAt: string | null;
  /** The token's contract; null for the native coin of the chain. */
  contractAddress?: string | null;
  /** When it was created. */
  createdAt: string;
  /** When it was credited. */
  creditedAt: string | null;
  /** The customer's e-mail, where one is known. */
  customerEmail: string | null;
  /**
   * The customer whose address received the deposit; null for a deposit of your own, which has a
   * product.
   */
  customerId: string | null;
  /** The id of the deposit. The same transfer on the chain always has the same id. */
  depositId: string;
  /** The deposit swap that this credit completes, or null. */
  depositSwapId: string | null;
  /** When the service first saw it. */
  detectedAt: string | null;
  /** Why the deposit is flagged; null unless it is. */
  flagReason: FlagReason | null;
  /**
   * The latest answer of screening about the sender between the flag and the decision; null if
   * screening was not asked again. It decides nothing, and no decision waits for it.
   */
  freshScreening: FreshScreening | null;
  /** The senders. Empty when one of the senders is not known, or when there are more than 20. */
  fromAddresses: string[];
  /**
   * Whether risk screening flagged the deposit. It stays true after an approval: status says whether
   * the deposit is credited.
   */
  isFlagged: boolean;
  /**
   * The index of the token's log in its block; null for a transfer of the native coin. A
   * reorganization can change it.
   */
  logIndex: number | null;
  /**
   * The memo that the payer wrote into the transaction; null without a memo, before the service has
   * read it, and on every chain but SOLANA. It is text of a stranger and proves nothing about the
   * payer: escape it where you show it, and credit no customer by it. Several memos of a transaction
   * are separated by line breaks. The service replaces control characters by U+FFFD.
   */
  memo: string | null;
  /** The symbol of the mint, for people. */
  mint: EmbeddedMint | null;
  /** The mint; null for a token that the catalogue does not list. */
  mintId: number | null;
  /**
   * The index of the output in the transaction, from 0. Only BITCOIN has it, where two outputs to
   * one customer are two deposits; null on every other chain.
   */
  outputIndex: number | null;
  /** The product of your own whose address received the deposit. Only a deposit of your own has it. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | null;
  /** How it was resolved; null until it is. */
  resolution: Resolution | null;
  /** Attempts that failed before anything reached the chain. */
  resolutionAttempts: ResolutionAttempt[];
  /**
   * Only of a flagged deposit: the risks of sending it back to its sender. With MULTIPLE_INPUTS
   * there is no single sender, and with SWAP_SOLVER the sender is a swap provider: the organization
   * can approve such a deposit and not reject it. The other values are for the person who decides.
   */
  returnAddressRisk?: "NONE" | "MULTIPLE_INPUTS" | "CONTRACT" | "KNOWN_EXCHANGE" | "SWAP_SOLVER" | null;
  /**
   * How the service reversed the credit. Only a REVERSED deposit has it: the chain replaced final
   * blocks and does not have the transfer any more.
   */
  reversal?: Reversal | null;
  /** The severity that flagged the deposit. */
  riskOfFunds: string | null;
  /** The result of risk screening. */
  screening: Screening;
  /**
   * EXTERNAL, CUSTOMER_SWAP, DEPOSIT_SWAP, INTERNAL or CHECKOUT. Sources may be added without
   * notice.
   */
  source: string;
  /** The status in the service's books. */
  status: "DETECTED" | "CONFIRMING" | "SCREENING" | "CREDITED" | "FLAGGED" | "APPROVING" | "REJECTING" | "REDIRECTING" | "RESOLUTION_STUCK" | "REJECTED" | "REDIRECTED" | "ORPHANED" | "UNSUPPORTED" | "BELOW_MINIMUM" | "REVERSED";
  /** The customer swap that this credit completes, or null. */
  swap: SwapSummary | null;
  /** The hash of the sweep to the treasury; null until the sweep. */
  sweepTxHash: string | null;
  /** The hash of the transaction. */
  txHash: string;
  /**
   * Why the deposit is not credited. Only an UNSUPPORTED deposit has it. If very many transfers use
   * tokens that the catalogue does not list, the service records only the first ones.
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
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
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
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Asks for a deposit address. */
export interface DepositRequest {
  /** The customer's e-mail. This call sets it while none is known, and never changes it. */
  customerEmail?: string | null;
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
   */
  customerId: string;
  /** The mint: a token on a chain. */
  mintId: number;
}

/** An address of a swap provider that a customer pays in another token, to be credited in USDC. */
export interface DepositSwap {
  /**
   * The amount of the request, in atomic units of the token; null if the request had none. The
   * customer may pay another amount.
   */
  amountIn: string | null;
  /** The sum of what arrived by final blocks, in atomic units of toMintId; null until something has. */
  amountOut: string | null;
  /** When the first deposit was credited or flagged; null until it is COMPLETED. */
  completedAt: string | null;
  /** When it was created. */
  createdAt: string;
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
   */
  customerId: string;
  /**
   * The address that the customer pays, of the swap provider. It is shown only while the provider's
   * signature and this service's seal of it are right. Empty for a deposit swap that has ended, if
   * the service has removed the keys of its provider since.
   */
  depositAddress: string;
  /** The first deposit that arrived; null before. */
  depositId: string | null;
  /**
   * Every deposit that arrived, oldest first: more than one if the provider paid in parts, or if the
   * customer paid again.
   */
  depositIds: string[];
  /** The deposit swap. */
  depositSwapId: string;
  /** The hash of the transaction that delivered; null until it is known. */
  destinationTxHash: string | null;
  /**
   * What amountIn would bring, or about 100 dollars of the token if the request had no amountIn; in
   * atomic units of toMintId.
   */
  estimatedAmountOut: string;
  /** Until when the provider takes a payment. Do not show the address afterwards. */
  expiresAt: string;
  /** Why it is FAILED, REFUNDED or UNDERPAID, for a person; null otherwise and without a reason. */
  failureReason: string | null;
  /** The key of the request that made it; null if the request had none. */
  idempotencyKey: string | null;
  /** Always null: an address that needs a memo is not offered. */
  memo: string | null;
  /** The least amount that the provider's offer allows for it, in atomic units of toMintId. */
  minAmountOut: string;
  /** FLEXIBLE: the provider swaps the amount that arrives, also another one than amountIn. */
  mode: "FLEXIBLE";
  /**
   * The chain on which the customer pays. Show it with the address: the address is of this chain
   * alone.
   */
  originChain: string;
  /** The number of decimals of the token. */
  originDecimals: number;
  /** The symbol of the token, for people. It identifies nothing. */
  originSymbol: string;
  /** The token that the customer pays. */
  originTokenId: string;
  /** The hash of the customer's transaction; null until it is known. */
  originTxHash: string | null;
  /** The swap provider. Providers may be added without notice. */
  provider: string;
  /**
   * The amount that a node of this service saw at depositAddress, in atomic units of the token; null
   * before, and on a chain without such a node.
   */
  receivedAmount: string | null;
  /** The address of the request, to which the provider sends back what it does not swap. */
  refundAddress: string;
  /**
   * The amount of a refund that a node of this service saw, in atomic units of the token; null
   * before, and on a chain without such a node.
   */
  refundedAmount: string | null;
  /**
   * AWAITING_DEPOSIT: the provider has seen no payment. UNDERPAID: the provider says that the
   * payment is too small. PROCESSING: the provider has a payment, or says that it paid. COMPLETED: a
   * final block has the USDC, and depositId is credited or flagged. REFUNDED: the provider says that
   * it paid refundAddress. FAILED: the provider says that it failed. EXPIRED: the time for a payment
   * is over and none was seen. Every status can still become COMPLETED.
   */
  status: "AWAITING_DEPOSIT" | "UNDERPAID" | "PROCESSING" | "COMPLETED" | "REFUNDED" | "FAILED" | "EXPIRED";
  /** The mint in which the customer is credited. */
  toMintId: number;
  /** When it last changed. */
  updatedAt: string;
}

/** A page of deposit swaps. */
export interface DepositSwapPage {
  /** The items, in order. */
  data: DepositSwap[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** What a deposit swap would bring now. It binds no one. */
export interface DepositSwapQuote {
  /** The amount of the quote, in atomic units of the token. */
  amountIn: string;
  /**
   * What the customer would be credited, in atomic units of toMintId: the offer of the provider less
   * its fees.
   */
  estimatedAmountOut: string;
  /** How long the provider expects the swap to take; null if it does not say. */
  estimatedTimeSeconds: number | null;
  /** Always 0: there is no fee of the platform on a deposit swap. */
  feeAmount: string;
  /** Always 0. */
  feeBps: number;
  /** The least amount that the offer allows the provider to deliver, in atomic units of toMintId. */
  minAmountOut: string;
  /** The token: GET /deposit-swap/tokens lists them. */
  originTokenId: string;
  /** The swap provider with the best offer. Providers may be added without notice. */
  provider: string;
  /** When the provider was asked. */
  quotedAt: string;
  /** Whole tokens of toMintId for one whole token, by estimatedAmountOut. */
  rate: string;
  /** The mint in which the customer would be credited. */
  toMintId: number;
  /** The value of estimatedAmountOut in dollars, for display; null when there is no recent price. */
  usdValue: string | null;
}

/** Asks what a deposit swap would bring. */
export interface DepositSwapQuoteRequest {
  /**
   * The amount that the customer would pay, in atomic units of the token. Without it the quote is
   * about 100 dollars of the token.
   */
  amountIn?: string | null;
  /** The token: GET /deposit-swap/tokens lists them. */
  originTokenId: string;
}

/** Asks for a deposit swap. */
export interface DepositSwapRequest {
  /**
   * The amount that the customer means to pay, in atomic units of the token. It binds no one:
   * another amount is swapped, too. Without it the estimate is of about 100 dollars.
   */
  amountIn?: string | null;
  /** The customer's e-mail. This call sets it while none is known, and never changes it. */
  customerEmail?: string | null;
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
   */
  customerId: string;
  /**
   * Your name for this deposit swap: 1 to 255 printable ASCII characters without a space. It never
   * expires. Without it every call makes another one.
   */
  idempotencyKey?: string | null;
  /** The token: GET /deposit-swap/tokens lists them. */
  originTokenId: string;
  /**
   * An address of the customer on the chain of the token, to which the provider sends back what it
   * does not swap. Ask your customer for it: an exchange may not credit what comes back.
   */
  refundAddress: string;
}

/** A token that a customer can pay a deposit swap in. */
export interface DepositSwapToken {
  /** The chain of the token. It may be a chain that this service has no mints on. */
  chain: string;
  /** The token's contract; null for the native coin of the chain. */
  contractAddress: string | null;
  /** The number of decimals of the atomic unit. Read it before you convert an amount. */
  decimals: number;
  /** The least amount that a provider takes, in atomic units of the token; null if none says so. */
  minAmount: string | null;
  /** The token: GET /deposit-swap/tokens lists them. */
  originTokenId: string;
  /** The symbol, for people. It identifies nothing: two tokens may share it. */
  symbol: string;
}

/** The tokens of deposit swaps, by chain and symbol. */
export interface DepositSwapTokens {
  /** The items, in order. */
  data: DepositSwapToken[];
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
  /** The name, for people. */
  name: string;
  /** The symbol, for people. It identifies nothing: two tokens may share it. */
  symbol: string;
}

/** A webhook endpoint. */
export interface Endpoint {
  /** The date of the payload version. */
  apiVersion: string;
  /** When it was created. */
  createdAt: string;
  /** A note for people. */
  description: string;
  /** The webhook endpoint. */
  endpointId: string;
  /**
   * The events that the endpoint receives. Empty means the seven events of the interface and no
   * extension. * alone means all events, including later ones.
   */
  events: string[];
  /**
   * The first failed attempt since the last success; null when the last attempt succeeded. After
   * five days of failures the endpoint is DISABLED_BY_FAILURE.
   */
  failingSince: string | null;
  /** Limits which events the endpoint receives. */
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
  /** A note for people. */
  description?: string | null;
  /**
   * The events that the endpoint shall receive. Empty: the seven events of the interface and no
   * extension. * alone: all events, including later ones.
   */
  events?: ("*" | "BATCH_PAYOUT_AWAITING_APPROVAL" | "BATCH_PAYOUT_COMPLETED" | "BATCH_PAYOUT_FAILED" | "BATCH_PAYOUT_PROCESSING" | "BATCH_PAYOUT_REJECTED" | "CHECKOUT_COMPLETED" | "CHECKOUT_EXCEPTION" | "CHECKOUT_EXPIRED" | "CHECKOUT_PROCESSING" | "CHECKOUT_REFUNDED" | "CREDIT_NOTE_ISSUED" | "CUSTOMER_DEPOSIT" | "CUSTOMER_DEPOSIT_APPROVED" | "CUSTOMER_DEPOSIT_REDIRECTED" | "CUSTOMER_DEPOSIT_REJECTED" | "CUSTOMER_DEPOSIT_REVERSED" | "CUSTOMER_DEPOSIT_SEEN" | "CUSTOMER_SWAP_DELAYED" | "CUSTOMER_SWAP_FAILED" | "CUSTOMER_SWAP_REFUNDED" | "CUSTOMER_WITHDRAW" | "CUSTOMER_WITHDRAW_APPROVED" | "CUSTOMER_WITHDRAW_AWAITING_APPROVAL" | "CUSTOMER_WITHDRAW_BLOCKED" | "CUSTOMER_WITHDRAW_CANCELLED" | "CUSTOMER_WITHDRAW_COMPLETED" | "CUSTOMER_WITHDRAW_FAILED" | "CUSTOMER_WITHDRAW_REJECTED" | "INVOICE_ISSUED" | "ORGANIZATION_DEPOSIT" | "ORGANIZATION_DEPOSIT_REVERSED" | "ORGANIZATION_SWAP_COMPLETED" | "ORGANIZATION_SWAP_FAILED" | "ORGANIZATION_WITHDRAW" | "ORGANIZATION_WITHDRAW_APPROVED" | "ORGANIZATION_WITHDRAW_AWAITING_APPROVAL" | "ORGANIZATION_WITHDRAW_BLOCKED" | "ORGANIZATION_WITHDRAW_CANCELLED" | "ORGANIZATION_WITHDRAW_COMPLETED" | "ORGANIZATION_WITHDRAW_FAILED" | "ORGANIZATION_WITHDRAW_REJECTED" | "TRANSFER_COMPLETED")[] | null;
  /** Limits which events the endpoint receives. */
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
   * Only events that concern this customer, compared byte for byte; of transfers, those that the
   * customer pays.
   */
  customerId?: string | null;
}

/** A page of webhook endpoints. */
export interface EndpointPage {
  /** The items, in order. */
  data: Endpoint[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Registers a webhook endpoint. */
export interface EndpointRequest {
  /** A note for people. */
  description?: string | null;
  /**
   * The events that the endpoint shall receive. Empty or left out: the seven events of the interface
   * and no extension. * alone: all events, including later ones.
   */
  events?: ("*" | "BATCH_PAYOUT_AWAITING_APPROVAL" | "BATCH_PAYOUT_COMPLETED" | "BATCH_PAYOUT_FAILED" | "BATCH_PAYOUT_PROCESSING" | "BATCH_PAYOUT_REJECTED" | "CHECKOUT_COMPLETED" | "CHECKOUT_EXCEPTION" | "CHECKOUT_EXPIRED" | "CHECKOUT_PROCESSING" | "CHECKOUT_REFUNDED" | "CREDIT_NOTE_ISSUED" | "CUSTOMER_DEPOSIT" | "CUSTOMER_DEPOSIT_APPROVED" | "CUSTOMER_DEPOSIT_REDIRECTED" | "CUSTOMER_DEPOSIT_REJECTED" | "CUSTOMER_DEPOSIT_REVERSED" | "CUSTOMER_DEPOSIT_SEEN" | "CUSTOMER_SWAP_DELAYED" | "CUSTOMER_SWAP_FAILED" | "CUSTOMER_SWAP_REFUNDED" | "CUSTOMER_WITHDRAW" | "CUSTOMER_WITHDRAW_APPROVED" | "CUSTOMER_WITHDRAW_AWAITING_APPROVAL" | "CUSTOMER_WITHDRAW_BLOCKED" | "CUSTOMER_WITHDRAW_CANCELLED" | "CUSTOMER_WITHDRAW_COMPLETED" | "CUSTOMER_WITHDRAW_FAILED" | "CUSTOMER_WITHDRAW_REJECTED" | "INVOICE_ISSUED" | "ORGANIZATION_DEPOSIT" | "ORGANIZATION_DEPOSIT_REVERSED" | "ORGANIZATION_SWAP_COMPLETED" | "ORGANIZATION_SWAP_FAILED" | "ORGANIZATION_WITHDRAW" | "ORGANIZATION_WITHDRAW_APPROVED" | "ORGANIZATION_WITHDRAW_AWAITING_APPROVAL" | "ORGANIZATION_WITHDRAW_BLOCKED" | "ORGANIZATION_WITHDRAW_CANCELLED" | "ORGANIZATION_WITHDRAW_COMPLETED" | "ORGANIZATION_WITHDRAW_FAILED" | "ORGANIZATION_WITHDRAW_REJECTED" | "TRANSFER_COMPLETED")[] | null;
  /** Limits which events the endpoint receives. */
  filters?: EndpointFilters | null;
  /** The URL to which events are posted: HTTPS, and no address inside a private network. */
  url: string;
}

/** A new endpoint with its secret, which only this answer shows. */
export interface EndpointWithSecret {
  /** The date of the payload version. */
  apiVersion: string;
  /** When it was created. */
  createdAt: string;
  /** A note for people. */
  description: string;
  /** The webhook endpoint. */
  endpointId: string;
  /**
   * The events that the endpoint receives. Empty means the seven events of the interface and no
   * extension. * alone means all events, including later ones.
   */
  events: string[];
  /**
   * The first failed attempt since the last success; null when the last attempt succeeded. After
   * five days of failures the endpoint is DISABLED_BY_FAILURE.
   */
  failingSince: string | null;
  /** Limits which events the endpoint receives. */
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
  /** The amount in atomic units. */
  amount: string;
  /** The amount in whole tokens. */
  amountDecimal: string;
  /**
   * The kind of balance: AVAILABLE, PENDING_WITHDRAW for what is held for withdrawals or owed to
   * payers of checkouts, or IN_SWAP for what is held for swaps.
   */
  balance: "AVAILABLE" | "PENDING_WITHDRAW" | "IN_SWAP";
  /**
   * What happened: DEPOSIT, DEPOSIT_REVERSAL, WITHDRAWAL_HOLD, WITHDRAWAL_END, WITHDRAWAL_FEE,
   * WITHDRAWAL_CHARGE, WITHDRAWAL_CHARGE_RETURN, TRANSFER, RESTORE. Causes may be added without
   * notice.
   */
  cause: string;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** When it was created. */
  createdAt: string;
  /** CREDIT increased the balance, DEBIT decreased it. */
  direction: "CREDIT" | "DEBIT";
  /** The movement. */
  entryId: string;
  /** The mint: a token on a chain. */
  mintId: number;
  /** The deposit, withdrawal, transfer, swap or refund that caused the movement. */
  resourceId: string;
  /** The symbol, for people. It identifies nothing: two tokens may share it. */
  symbol: string;
}

/** A page of movements. */
export interface EntryPage {
  /** The items, in order. */
  data: Entry[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** The body of a webhook, byte for byte. */
export interface Envelope {
  /** The date of the payload version. */
  apiVersion: string;
  /**
   * The object of the event: a deposit, a withdrawal, a transfer, a swap, a checkout, a batch
   * payout, an invoice or a credit note.
   */
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

/** One page of the event feed. */
export interface EnvelopePage {
  /** The items, in order. */
  data: Envelope[];
  /** Whether there are more items. */
  hasMore: boolean;
  /**
   * The cursor of the next page, with the same types; null on the last page. The last sequence,
   * given as after, leads to the same page.
   */
  nextCursor: string | null;
}

/** What a withdrawal would cost, and how much the customer can withdraw. */
export interface Estimate {
  /**
   * The costs of the payment that the customer pays, in the withdrawn token and in addition to the
   * amount. Absent when your organization charges nothing (chargeCustomerCosts).
   */
  customerCharge?: CustomerCharge | null;
  /** The end of the estimate's validity: ask again after it. */
  expiresAt: string;
  /**
   * How much the customer can withdraw now; null when no customer was named. In either feeMode no
   * fee is added to it. It does not count what customerCharge holds.
   */
  maxAmount: string | null;
  /** The highest network fee, in atomic units of the native coin. */
  networkFee: string;
  /** The mint of networkFee: the chain's native coin. */
  networkFeeMintId: number | null;
  /** The same in dollars, exactly; null without a recent price of the coin. */
  networkFeeUsd: string | null;
}

/**
 * Asks what a withdrawal would cost. It has the body of POST /withdraw, of which only mintId is
 * required.
 */
export interface EstimateRequest {
  /** As in POST /withdraw. */
  amount?: string | null;
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
   */
  customerId?: string | null;
  /**
   * Who pays the network fee. ORGANIZATION: your organization is billed, and the destination
   * receives the whole amount. DEDUCTED, for the native coin of a chain only: the customer pays
   * amount, and the destination receives amount less networkFee. This networkFee is fixed when the
   * payment is ordered; the organization bears or keeps any difference to what the network takes.
   */
  feeMode?: "ORGANIZATION" | "DEDUCTED" | null;
  /**
   * Your name for this payment: 1 to 255 printable ASCII characters without a space. It never
   * expires.
   */
  idempotencyKey?: string | null;
  /**
   * The highest network fee that you accept, in atomic units of the native coin, whatever useDecimal
   * says. While the network asks for more, the withdrawal is AWAITING_APPROVAL with NETWORK_FEE, and
   * the service makes no paying transaction above the limit.
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
   * Your statement about the parties: any object of up to 4096 bytes. The service stores it and
   * shows it with the withdrawal. It does not check it, and no event has it.
   */
  travelRule?: Record<string, unknown> | null;
  /** true: amount is in whole tokens. */
  useDecimal?: boolean;
}

/** A fee that an organization owes. */
export interface FeeLine {
  /** When the swap was completed, or the network fee was posted, which made the fee due. */
  completedAt: string;
  /** The fee in atomic units of that mint. No balance pays it. */
  feeAmount: string;
  /** The rate of feeAmount, in basis points of the amount that was swapped; 0 for a network fee. */
  feeBps: number;
  /** The id of the fee. */
  feeLineId: string;
  /** The transaction that a network fee paid for; null for a swap. */
  feeTxHash: string | null;
  /** The mint of feeAmount: the source mint of the swap, or the coin of the network. */
  fromMintId: number;
  /** The invoice that bills it; null until one does. */
  invoiceId: string | null;
  /** Whether feeAmount is taken off what you owe: a fee that was prepaid, or became lower. */
  isCredit: boolean;
  /** What the fee is for. Kinds may be added without notice. */
  kind: string;
  /**
   * The price of a whole token in dollars, close to the completion; null until it is read, and for
   * good if none was known within a quarter of an hour.
   */
  price: string | null;
  /** Where the price is from; null without a price. */
  priceSource: string | null;
  /** The time of the price, by its source; null without a price. */
  pricedAt: string | null;
  /** What the fee is of. */
  sourceId: string;
  /**
   * What sourceId names. SWAP: the swap. NETWORK_FEE: the order whose transaction cost it.
   * FEE_CHANGE: that order and, after a slash, which later change of its cost it is. FEE_PREPAID:
   * the withdrawal that paid its fee itself. Kinds may be added without notice.
   */
  sourceKind: string;
  /** The swap; empty for a network fee. */
  swapId: string;
  /** The value of feeAmount in dollars by price; null without a price. */
  usdValue: string | null;
}

/** A page of fees. */
export interface FeeLinePage {
  /** The items, in order. */
  data: FeeLine[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Limits which events the endpoint receives. */
export interface Filters {
  /** Only events of this chain; null: all. */
  chain: string | null;
  /** Only events that concern this customer; of transfers, those that the customer pays; null: all. */
  customerId: string | null;
}

/** Why a deposit is flagged. */
export interface FlagReason {
  /** The provider's categories. */
  categories: string[];
  /** A code for programs. */
  code: string;
  /** The owner of the sending wallet, if the provider knows it. */
  entity: string | null;
  /** The risk provider. */
  provider: string | null;
  /**
   * Present and true when the sender itself is on a sanctions list. The law may forbid you to send
   * blocked property back: ask before you reject.
   */
  sanctioned?: boolean;
  /** The provider's own score. */
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
  /** The risk provider. */
  provider: string;
  /** Your own reference. The service shows it and can search for it. */
  reference: string | null;
  /** The provider's own score. */
  score: number | null;
  /** When the provider was asked. */
  screenedAt: string;
  /** NONE, LOW, MEDIUM, HIGH or SEVERE, in this order, or UNKNOWN, which is not part of the order. */
  severity: string;
}

/**
 * The result of one rule, with the facts that it used. Amounts are in atomic units, values in
 * dollars.
 */
export interface GateResult {
  /** What the customer could spend. */
  available?: string;
  /** The error of the signer or of the chain. */
  code?: string;
  /**
   * The network fees of the customer's other withdrawals in the last 24 hours, in dollars: what they
   * cost, or can cost at most.
   */
  costsUsd?: string;
  /**
   * The withdrawal to the same destination that the chain reverted. No approved withdrawal was paid
   * to it since.
   */
  failedWithdrawalId?: string;
  /** The most that the service charges for a payment that fails because of its payee. */
  failureMax?: string;
  /** What is stopped. */
  freeze?: string;
  /**
   * The rule: FREEZE, IDEMPOTENCY_KEY, MINIMUM, SUSPENDED, ADDRESS, BALANCE, RISK, REQUIRE_APPROVAL,
   * USD_THRESHOLD, DESTINATION_ADDRESS, LIQUIDITY, NETWORK_FEE, CUSTOMER_COSTS, CUSTOMER_CHARGE or
   * SIGNER. Rules may be added without notice.
   */
  gate: string;
  /** What your addresses could pay, as far as the rule counted. */
  liquid?: string;
  /** The highest network fee that the request accepted. */
  maxNetworkFee?: string;
  /**
   * The smallest amount that can be requested: the minimum of the mint, or the least amount that
   * still reaches the destination when the fee comes out of it.
   */
  minimum?: string;
  /** The highest network fee at the time. */
  networkFee?: string;
  /** The dollar price of one whole token. */
  price?: string;
  /** The age of the price when the rule used it. */
  priceAgeSeconds?: string;
  /** The time of the price, by its source. */
  priceAt?: string;
  /** The source of the price. */
  priceSource?: string;
  /** The provider. */
  provider?: string;
  /** The approvalReason that the rule gave. */
  reason?: string;
  /** What would be held in addition to the amount for an account of the payee. */
  rentMax?: string;
  /** The known address that looks like the destination. */
  resembles?: string;
  /**
   * PASS, HOLD, REFUSE, BLOCK (the call answers 451), SKIPPED (the rule would hold, and the approval
   * allowlist has the customer), or NOT_CONFIGURED when the rule has nothing to check. Results may
   * be added without notice.
   */
  result: string;
  /** How far it reaches. */
  scope?: string;
  /** The result of risk screening. */
  severity?: string;
  /** The limit that the value was compared with. */
  threshold?: string;
  /** The value of the amount. */
  usdValue?: string;
  /** A sentence for a person. */
  why?: string;
}

/** What an organization owes the operator for a month. INVOICE_ISSUED tells that it was issued. */
export interface Invoice {
  /** Who is billed, as of the issue. */
  buyer: InvoiceParty;
  /** What credit notes give back of it in dollars, with tax. */
  credited: string;
  /** The invoice. */
  invoiceId: string;
  /** When it was issued. */
  issuedAt: string;
  /** The month in UTC. Fees of earlier months that had no price in time are on it, too. */
  month: string;
  /** Its number, without a gap in its series. */
  number: string;
  /** What is left to pay in dollars; 0.00 once it is paid. */
  outstanding: string;
  /** When the operator marked it as paid; null before. */
  paidAt: string | null;
  /** The operator's reference of the payment; null before it. */
  paidReference: string | null;
  /** The sums of its fees, by kind and mint. */
  sections: InvoiceSection[];
  /** Who bills, as of the issue. */
  seller: InvoiceParty;
  /** ISSUED: it waits for its payment. PAID: the operator received it. */
  status: "ISSUED" | "PAID";
  /** The sum of the sections in dollars. */
  subtotal: string;
  /** The tax in dollars. */
  tax: string;
  /** What the invoice says about the tax; empty for nothing. */
  taxNote: string;
  /** The rate of the tax, in basis points. */
  taxRateBps: number;
  /** What is owed in dollars. */
  total: string;
}

/** A page of invoices. */
export interface InvoicePage {
  /** The items, in order. */
  data: Invoice[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** A party of an invoice or credit note. */
export interface InvoiceParty {
  /** The lines of the address. */
  address: string[];
  /** The e-mail for questions; empty for none. */
  email: string;
  /** The legal name. */
  legalName: string;
  /** The tax number; empty for none. */
  taxId: string;
}

/** The sum of the fees of a kind in one mint. */
export interface InvoiceSection {
  /** The sum in atomic units. */
  amount: string;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** The number of decimals of the atomic unit. Read it before you convert an amount. */
  decimals: number;
  /**
   * NETWORK_FEES: what transactions cost. NETWORK_FEE_CREDITS: network fees that were prepaid or
   * became lower, which are taken off. SWAP_FEES: fees of completed swaps. Kinds may be added
   * without notice.
   */
  kind: string;
  /** How many fees it sums up. */
  lines: number;
  /** The symbol of the mint. */
  symbol: string;
  /** usdExact in whole cents, rounded half up. With a minus sign for credits. */
  usd: string;
  /** The exact sum of the values of the fees in dollars. With a minus sign for credits. */
  usdExact: string;
}

/** Says how long the former value of a key works after a roll. */
export interface KeyRoll {
  /**
   * How long the former value works. 0, the default, ends it at once, together with every earlier
   * value. While an earlier value still works, only 0 is allowed.
   */
  overlapSeconds?: number;
}

/** One position of a checkout, as it was when the checkout was made. */
export interface LineItem {
  /** The name, for payers. */
  name: string;
  /** The product; null for something that is none. */
  productId: string | null;
  /** How many pieces. */
  quantity: number;
  /** The price of one piece, in the currency of the checkout. */
  unitPrice: string;
}

/** One position of a checkout. */
export interface LineItemRequest {
  /** The product. */
  productId: string;
  /** How many pieces; 1 if it is left out. */
  quantity?: number | null;
  /**
   * The price of one piece that the payer chose. A product with an open price needs it, and no other
   * has it.
   */
  unitPrice?: string | null;
}

/** Changes a payment link. Fields that are left out stay as they are. */
export interface LinkChange {
  /** The new text after the payment; null for none. */
  afterText?: string | null;
  /** The new end, in the future; null for none. */
  expiresAt?: string | null;
  /** The new limit of sales; null for none. */
  maxCompleted?: number | null;
  /** Where the payer is led after the payment; null for where the products lead. */
  successUrl?: string | null;
}

/** A product that a payment link sells. */
export interface LinkItem {
  /** The product. */
  productId: string;
  /** How many pieces one checkout has; null if the payer chooses. */
  quantity: number | null;
  /**
   * The greatest quantity that the payer can choose; null for that of the product, or for a fixed
   * quantity.
   */
  quantityMax: number | null;
  /** The least quantity that the payer can choose; null for 1, or for a fixed quantity. */
  quantityMin: number | null;
}

/** One product of a payment link. */
export interface LinkItemRequest {
  /** The product. */
  productId: string;
  /** How many pieces one checkout has; left out: the payer chooses. */
  quantity?: number | null;
  /** The greatest quantity that the payer can choose; that of the product if it is left out. */
  quantityMax?: number | null;
  /** The least quantity that the payer can choose; 1 if it is left out. */
  quantityMin?: number | null;
}

/** Makes a payment link. */
export interface LinkRequest {
  /**
   * What a payer reads on the page of a completed checkout: up to 1,000 characters, with line
   * breaks.
   */
  afterText?: string | null;
  /** From when on it sells nothing: a time in the future; left out: never. */
  expiresAt?: string | null;
  /**
   * Your name for this payment link: 1 to 255 printable ASCII characters without a space. It never
   * expires. Without it every call makes another one.
   */
  idempotencyKey?: string | null;
  /** What it sells: up to 20 products of one currency that accept a mint in common, each once. */
  lineItems: LinkItemRequest[];
  /** After so many sales it sells nothing more; left out: no limit. */
  maxCompleted?: number | null;
  /**
   * The end of the address: 4 to 40 of a-z, 0-9 and the hyphen, which is neither first nor last. It
   * is unique in the installation. Left out: 22 random letters and digits.
   */
  slug?: string | null;
  /**
   * Where the payer is led after the payment: https, in ASCII, without a user name. Left out: where
   * the products lead.
   */
  successUrl?: string | null;
}

/** A token on a chain. */
export interface Mint {
  /** The network by its CAIP-2 name; null for a chain that does not run here. */
  caip2: string | null;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /**
   * How many confirmations to show to people until a deposit counts. The service decides by
   * finality.
   */
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
  /** The name, for people. */
  name: string;
  /** The network of the chain that this installation uses. */
  network: "MAINNET" | "TESTNET" | "LOCAL";
  /**
   * Whether customer swaps of your organization may use the mint; false for every mint while swaps
   * are off.
   */
  swappable: boolean;
  /** The symbol, for people. It identifies nothing: two tokens may share it. */
  symbol: string;
  /** The dollar price of one whole token, for display; null when it is not known. */
  usdPrice: string | null;
  /** The time of the price. */
  usdPriceAt: string | null;
  /** Whether withdrawals are accepted. */
  withdrawEnabled: boolean;
}

/** A page of mints. */
export interface MintPage {
  /** The items, in order. */
  data: Mint[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Names the mint in which a checkout is to be paid. */
export interface OptionRequest {
  /** The mint: a token on a chain. */
  mintId: number;
}

/** A swap of your organization's own money. */
export interface OrganizationSwap {
  /** The amount that the product gives, in atomic units of the source mint. */
  amountIn: string;
  /**
   * The amount that arrived, in atomic units of the destination mint; null until it has. The
   * withdrawal pays it to the whitelisted address, for a native coin less the network fee.
   */
  amountOut: string | null;
  /**
   * How many of the needed approvals it has. Its expiresAt says until when it can be approved; null
   * when it does not wait.
   */
  approvals: Approvals;
  /** When the payment to the whitelisted address was final; null until the swap is COMPLETED. */
  completedAt: string | null;
  /** When it was created. */
  createdAt: string;
  /** When the output arrived in the product's balance; null until it has. */
  deliveredAt: string | null;
  /** The hash of the transaction that delivered; null until the delivery is final. */
  destinationTxHash: string | null;
  /**
   * The amount that the provider offers, less its fees and the cost of the delivery, in atomic units
   * of the destination mint.
   */
  estimatedAmountOut: string;
  /** How long the provider expects the swap to take; null if it does not say. */
  estimatedTimeSeconds: number | null;
  /** A sentence about the failure for a person; null without one. */
  failureMessage: string | null;
  /**
   * Why the swap failed, in the words of a customer swap; null unless the swap is FAILED. Reasons
   * may be added without notice.
   */
  failureReason: string | null;
  /** The mint that the product gives. */
  fromMintId: number;
  /**
   * The key of the request that made the swap; empty if the swap was restored from the signer's
   * journal, which has only a hash of the key.
   */
  idempotencyKey: string;
  /** The least amount for which the swap is made, in atomic units of the destination mint. */
  minAmountOut: string;
  /** The hash of the transaction that paid the swap provider; null until it is broadcast. */
  originTxHash: string | null;
  /**
   * Until when the approvals of the swap cover the withdrawal, too. A later withdrawal that needs
   * approvals waits for its own.
   */
  payoutUntil: string | null;
  /** The product whose balance pays. */
  product: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT";
  /** The swap provider; null until one has made an offer. Providers may be added without notice. */
  provider: string | null;
  /**
   * How far a refund has come, by final blocks, in the words of a customer swap. RESTORED: the
   * product's balance has what came back.
   */
  refundStatus: "NONE" | "PENDING" | "PARTIAL" | "REFUNDED" | "RESTORED" | "UNAVAILABLE" | "MANUAL";
  /** The hash of the latest transaction that brought a refund; null without one. */
  refundTxHash: string | null;
  /**
   * The amount that came back, in atomic units of the source mint; null while nothing has. It is
   * amountIn if the payment never left.
   */
  refundedAmount: string | null;
  /** The note of the person who rejected it; null otherwise. */
  rejectedReason: string | null;
  /** When what came back was put into the product's balance again; null before. */
  restoredAt: string | null;
  /**
   * AWAITING_APPROVAL: the amount is held until people approve. PENDING: the amount is held and the
   * payment to the provider is not broadcast. DEPOSITING: the payment is broadcast. PROCESSING: the
   * provider has the payment, or the output arrived and is not paid out yet. COMPLETED: the output
   * is paid to the whitelisted address. FAILED: it is not paid; after DESTINATION_UNAVAILABLE with
   * an amountOut the output is in the product's balance. REJECTED: a person refused it. CANCELLED:
   * the organization took it back.
   */
  status: "AWAITING_APPROVAL" | "REJECTED" | "CANCELLED" | "PENDING" | "DEPOSITING" | "PROCESSING" | "COMPLETED" | "FAILED";
  /** The organization swap. */
  swapId: string;
  /** The address of that entry when the swap was requested. */
  toAddress: string;
  /** The mint that the whitelisted address receives. */
  toMintId: number;
  /** ORGANIZATION: your organization's own money. */
  type: "ORGANIZATION";
  /** When it last changed. */
  updatedAt: string;
  /**
   * The value of amountIn in dollars when the swap was made, for display; null when there was no
   * price.
   */
  usdValue: string | null;
  /** The entry of the whitelist that the output is paid to. */
  whitelistedAddressId: string;
  /** The withdrawal that pays the output to the whitelisted address; null until it is requested. */
  withdrawalId: string | null;
}

/** A page of organization swaps. */
export interface OrganizationSwapPage {
  /** The items, in order. */
  data: OrganizationSwap[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Asks what a swap of your own money would bring. */
export interface OrganizationSwapQuoteRequest {
  /** The amount to swap, in atomic units of the source mint. */
  amountIn: string;
  /** The mint that the product gives. */
  fromMintId: number;
  /** The product whose balance would pay. The balance is not looked at. */
  product?: string | null;
  /**
   * How much less than the offer the provider may deliver, in basis points; 100 if it is left out.
   * The service asks providers for at most 300.
   */
  slippageBps?: number | null;
  /** The mint that the whitelisted address receives. */
  toMintId: number;
}

/** Asks for a swap of your own money. */
export interface OrganizationSwapRequest {
  /**
   * The amount that the product gives, in atomic units of the source mint. ASCII digits without
   * sign, exponent and leading zero.
   */
  amountIn: string;
  /** The mint that the product gives. */
  fromMintId: number;
  /**
   * Your name for this swap: 1 to 255 printable ASCII characters without a space, one for each swap
   * that you intend and not for each attempt. It never expires. The header Idempotency-Key is not
   * read.
   */
  idempotencyKey: string;
  /**
   * The least amount that you accept, in atomic units of the destination mint. If no provider offers
   * at least this much, the request is refused with 422 QUOTE_REJECTED.
   */
  minAmountOut?: string | null;
  /** The product whose balance pays. CUSTODIAL if it is left out. */
  product?: string | null;
  /**
   * How much less than the offer the provider may deliver, in basis points; 100 if it is left out.
   * The service asks providers for at most 300.
   */
  slippageBps?: number | null;
  /** The mint that the whitelisted address receives. */
  toMintId: number;
  /**
   * The entry of your whitelist that the output is paid to, on the chain of toMintId. GET
   * /whitelisted-addresses lists them.
   */
  whitelistedAddressId: string;
}

/** One side of a transfer: a customer or a product. */
export interface Party {
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
   */
  customerId?: string | null;
  /** A balance of your own organization. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | null;
}

/** A reusable public page that sells one or several products. Each purchase is a checkout. */
export interface PaymentLink {
  /** What a payer reads on the page of a completed checkout; null for nothing. */
  afterText: string | null;
  /**
   * How many of its checkouts are PROCESSING or COMPLETED. It may exceed maxCompleted: checkouts
   * that were open may be paid.
   */
  completedCount: number;
  /** When it was created. */
  createdAt: string;
  /** When it was ended; null until then. */
  endedAt: string | null;
  /** From when on it sells nothing; null for never. */
  expiresAt: string | null;
  /** The key of the request that made it; null if the request had none. */
  idempotencyKey: string | null;
  /** What it sells. It never changes. */
  lineItems: LinkItem[];
  /** The payment link. */
  linkId: string;
  /** After so many sales it sells nothing more; null for no limit. */
  maxCompleted: number | null;
  /** The end of the address: 22 random letters and digits, or the word that the request chose. */
  slug: string;
  /**
   * ACTIVE: it sells. PAUSED: it sells nothing until it is resumed. ENDED: it sells nothing, for
   * good.
   */
  status: "ACTIVE" | "PAUSED" | "ENDED";
  /** Where the payer is led after the payment; null for where the products lead. */
  successUrl: string | null;
  /** When it last changed. */
  updatedAt: string;
  /** The page. Everyone who has it can buy; null without pages. */
  url: string | null;
}

/** A page of payment links. */
export interface PaymentLinkPage {
  /** The items, in order. */
  data: PaymentLink[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** How a checkout can be paid in one mint. Its address belongs to this checkout permanently. */
export interface PaymentOption {
  /**
   * The address of this checkout; null until the option is opened. Any wallet and any exchange can
   * pay it.
   */
  address: string | null;
  /** The signer's statement that address belongs to this checkout; null until the option is opened. */
  addressProof: AddressProof | null;
  /**
   * What pays the rest, in atomic units; null until the option is opened, and while no rate is known
   * for the rest.
   */
  amount: string | null;
  /** null: no address of a checkout needs a memo. */
  memo: string | null;
  /** The mint: a token on a chain. */
  mintId: number;
  /**
   * A link that wallets can open; null with amount, and unless the checkout is OPEN. On SOLANA it
   * pays the shared address with the reference, and is null as long as sharedAddress is.
   */
  paymentUri: string | null;
  /** What one whole token counts in the currency of the checkout; null with amount. */
  rate: string | null;
  /**
   * Until when this rate holds. A payment in time counts at the newest rate that held at its moment,
   * or otherwise at the price of the market.
   */
  rateExpiresAt: string | null;
  /**
   * Only on SOLANA: the key that names this checkout in a payment to sharedAddress; null as long as
   * that is.
   */
  reference: string | null;
  /**
   * Only on SOLANA: the address of all your checkouts, which costs the payer no account. It is null
   * until its account for the token exists, which the service creates. A payment to it has to name
   * reference, as paymentUri does, and without it the service does not know which checkout it is
   * for.
   */
  sharedAddress: string | null;
  /**
   * The signer's statement that sharedAddress belongs to your organization; null where there is
   * none.
   */
  sharedAddressProof: AddressProof | null;
}

/** What POST /withdraw would do now. */
export interface Preview {
  /**
   * Why: REQUIRE_APPROVAL, USD_THRESHOLD, LOW_LIQUIDITY, DESTINATION_ADDRESS, RISK_REVIEW,
   * PRICE_UNAVAILABLE, POLICY_LIMIT, NETWORK_FEE (the network asks for more than maxNetworkFee),
   * DUPLICATE_KEY (the signer remembers another payment with this idempotency key; nothing was
   * sent), RESTORED (created again from the signer's journal after a restore; nothing was sent) or
   * APPROVAL_RULE (people sign it with their passkeys, by the organization's rule).
   */
  approvalReasons: string[];
  /**
   * The costs of the payment that the customer pays, in the withdrawn token and in addition to the
   * amount. Absent when your organization charges nothing (chargeCustomerCosts).
   */
  customerCharge?: CustomerCharge | null;
  /** The withdrawal that already has the idempotencyKey. Present only then. */
  existingId?: string | null;
  /** Every rule that was evaluated, in order. */
  gates: GateResult[];
  /**
   * The highest network fee, in atomic units of the native coin; null when the chain does not say.
   * With feeMode DEDUCTED it comes out of the amount.
   */
  networkFee: string | null;
  /** The mint of networkFee: the chain's native coin. */
  networkFeeMintId: number | null;
  /**
   * The status that the withdrawal would have: PROCESSING or AWAITING_APPROVAL. With a known
   * idempotencyKey, the status of the withdrawal that has the key.
   */
  wouldBe: string;
}

/** What your organization sells through its checkout. A product is archived and never deleted. */
export interface Product {
  /** The mints in which it can be paid, in your order. */
  acceptedMintIds: number[];
  /** When it was archived; null while it is for sale. */
  archivedAt: string | null;
  /** Where the payer is led who gives up; null for nowhere. */
  cancelUrl: string | null;
  /** When it was created. */
  createdAt: string;
  /** The currency of the prices: USD, or the symbol of one of acceptedMintIds. */
  currency: string;
  /** The description, for payers; null for none. */
  description: string | null;
  /** The key of the request that made it; null if the request had none. */
  idempotencyKey: string | null;
  /**
   * The address from which the image was fetched; null for none. Payers see a copy of it that this
   * service serves.
   */
  imageUrl: string | null;
  /**
   * What happens to a payment after the time for it. ACCEPT_IF_WITHIN_TOLERANCE: it counts if it is
   * enough at the price of its moment. HOLD: a person decides. REFUND_LINK: it does not count, and a
   * refund is made of it by itself, as of a part that was paid when the time was over.
   */
  latePaymentPolicy: "ACCEPT_IF_WITHIN_TOLERANCE" | "HOLD" | "REFUND_LINK";
  /** The highest price that the payer can choose; null for a fixed price. */
  maxPrice: string | null;
  /** How many pieces one checkout may have. */
  maxQuantity: number;
  /** Your own keys and values. */
  metadata: Record<string, string>;
  /** The lowest price that the payer can choose; null for a fixed price. */
  minPrice: string | null;
  /** The name, for payers. */
  name: string;
  /** Whether one reference of yours, such as the number of an order, is paid once. */
  onePerReference: boolean;
  /**
   * What happens to a surplus. CREDIT: it stays in your balance. REFUND_LINK: a refund is made by
   * itself, once for each coin, and the payer claims it on the page of the checkout.
   */
  overpaymentPolicy: "CREDIT" | "REFUND_LINK";
  /** The price of one piece; null if the payer chooses it. */
  price: string | null;
  /** FIXED: the price is fixed. OPEN: the payer chooses it between minPrice and maxPrice. */
  priceType: "FIXED" | "OPEN";
  /** The product. */
  productId: string;
  /**
   * Reserved for settlement in one mint: one of acceptedMintIds, or null, which keeps what is paid
   * as it is.
   */
  settlementMintId: number | null;
  /** ACTIVE: it is for sale. ARCHIVED: it takes no new checkout. */
  status: "ACTIVE" | "ARCHIVED";
  /** Where the payer is led after the payment; null for nowhere. */
  successUrl: string | null;
  /** How much less than the amount due counts as paid, in basis points. */
  underpaymentToleranceBps: number;
  /** When it last changed. */
  updatedAt: string;
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
  /** The amount that can be moved. */
  available: string;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** The mint: a token on a chain. */
  mintId: number;
  /**
   * What your customers have of the mint, including what they are withdrawing. Only CUSTODIAL has
   * it. It belongs to the customers, and the total does not include it.
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

/** Changes a product. Fields that are left out stay as they are. */
export interface ProductChange {
  /** The mints in which it can be paid, in your order. */
  acceptedMintIds?: number[];
  /** Where the payer is led who gives up; null for nowhere. */
  cancelUrl?: string | null;
  /** The currency of the prices: USD, or the symbol of one of acceptedMintIds. */
  currency?: string;
  /** The new description; null for none. */
  description?: string | null;
  /**
   * The address of a new image, which is fetched once by this call; null for none. Only a change
   * with this field fetches.
   */
  imageUrl?: string | null;
  /**
   * What happens to a payment after the time for it. ACCEPT_IF_WITHIN_TOLERANCE: it counts if it is
   * enough at the price of its moment. HOLD: a person decides. REFUND_LINK: it does not count, and a
   * refund is made of it by itself, as of a part that was paid when the time was over.
   */
  latePaymentPolicy?: "ACCEPT_IF_WITHIN_TOLERANCE" | "HOLD" | "REFUND_LINK";
  /** The new highest price; null for a product that becomes FIXED. */
  maxPrice?: string | null;
  /** How many pieces one checkout may have. */
  maxQuantity?: number;
  /**
   * Your own keys and values. They replace all earlier ones: at most 20 keys of up to 40 characters,
   * values of up to 500.
   */
  metadata?: Record<string, string>;
  /** The new lowest price; null for a product that becomes FIXED. */
  minPrice?: string | null;
  /** The new name, for payers. */
  name?: string;
  /** Whether one reference of yours, such as the number of an order, is paid once. */
  onePerReference?: boolean;
  /**
   * What happens to a surplus. CREDIT: it stays in your balance. REFUND_LINK: a refund is made by
   * itself, once for each coin, and the payer claims it on the page of the checkout.
   */
  overpaymentPolicy?: "CREDIT" | "REFUND_LINK";
  /** The new price; null for a product that becomes OPEN. */
  price?: string | null;
  /** FIXED: the price is fixed. OPEN: the payer chooses it between minPrice and maxPrice. */
  priceType?: "FIXED" | "OPEN";
  /**
   * Reserved for settlement in one mint: one of acceptedMintIds, or null, which keeps what is paid
   * as it is.
   */
  settlementMintId?: number | null;
  /** Where the payer is led after the payment; null for nowhere. */
  successUrl?: string | null;
  /** How much less than the amount due counts as paid, in basis points. */
  underpaymentToleranceBps?: number;
}

/** Asks for a deposit address of your own. */
export interface ProductDepositRequest {
  /** The mint: a token on a chain. */
  mintId: number;
  /** A balance of your own organization. */
  product: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT";
}

/** A page of products. */
export interface ProductPage {
  /** The items, in order. */
  data: Product[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Makes a product. */
export interface ProductRequest {
  /** The mints in which it can be paid, in your order. */
  acceptedMintIds: number[];
  /** Where the payer is led who gives up. It has the form of successUrl. */
  cancelUrl?: string | null;
  /** The currency of the prices: USD, or the symbol of one of acceptedMintIds; USD if it is left out. */
  currency?: string | null;
  /** The description, for payers: up to 2,000 characters, with line breaks. */
  description?: string | null;
  /**
   * Your name for this product: 1 to 255 printable ASCII characters without a space. It never
   * expires. Without it every call makes another one.
   */
  idempotencyKey?: string | null;
  /**
   * The address of an image: PNG, JPEG or WebP, at most 2 MB and 4,096 points on each side. It is
   * fetched once by this call, without following a redirect.
   */
  imageUrl?: string | null;
  /** What happens to a payment after the time for it; ACCEPT_IF_WITHIN_TOLERANCE if it is left out. */
  latePaymentPolicy?: "ACCEPT_IF_WITHIN_TOLERANCE" | "HOLD" | "REFUND_LINK" | null;
  /**
   * The highest price that the payer can choose, which an OPEN product needs. It has the form of
   * price.
   */
  maxPrice?: string | null;
  /** How many pieces one checkout may have; 1 if it is left out. */
  maxQuantity?: number | null;
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata?: Record<string, string>;
  /**
   * The lowest price that the payer can choose, which an OPEN product needs. It has the form of
   * price.
   */
  minPrice?: string | null;
  /** The name, for payers: 1 to 200 characters without control or bidirectional ones. */
  name: string;
  /**
   * Whether one reference of yours, such as the number of an order, is paid once; false if it is
   * left out.
   */
  onePerReference?: boolean | null;
  /** What happens to a surplus; CREDIT if it is left out. */
  overpaymentPolicy?: "CREDIT" | "REFUND_LINK" | null;
  /**
   * The price of one piece, which a FIXED product needs: above zero, at most 18 digits, two after
   * the point for USD and those of the mint otherwise.
   */
  price?: string | null;
  /** FIXED: the price is fixed. OPEN: the payer chooses it between minPrice and maxPrice. */
  priceType: "FIXED" | "OPEN";
  /**
   * Reserved for settlement in one mint: one of acceptedMintIds, or null, which keeps what is paid
   * as it is.
   */
  settlementMintId?: number | null;
  /** Where the payer is led after the payment: https, in ASCII, without a user name. */
  successUrl?: string | null;
  /** How much less than the amount due counts as paid, in basis points; 50 if it is left out. */
  underpaymentToleranceBps?: number | null;
}

/** A signed receipt, as a payer keeps it in a file. */
export interface ReceiptFile {
  /** A short name of the key that signed it. */
  keyId: string;
  /** The signed text, in base64url: JSON. */
  receipt: string;
  /** The ed25519 signature over it, in base64url. */
  signature: string;
}

/** Asks the service to send the events that an endpoint missed. */
export interface RecoverRequest {
  /**
   * true, the default: only events that were never delivered to the endpoint. false: all events
   * again.
   */
  onlyFailed?: boolean | null;
  /** Only events of this time and later, by the time of the change. */
  since: string;
  /** Only events before this time; left out: up to now. */
  until?: string | null;
}

/**
 * What is given back of one checkout, in the coin and on the network of the payment.
 * CHECKOUT_REFUNDED tells once that it was paid.
 */
export interface Refund {
  /** Whether the payer proved the address by a signature. */
  addressProven: boolean;
  /**
   * What is given back, in atomic units. The payer receives it to the last unit; with feeMode
   * DEDUCTED less the fee of the network.
   */
  amount: string;
  /** How many addresses it has had. */
  attempt: number;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /** The checkout. */
  checkoutId: string;
  /**
   * The page on which the payer says where the refund goes. Only the answer that makes the key has
   * it: that of the refund, or of a new key. null in every other one. Who has the whole address
   * decides where the money goes, so give it to the payer alone.
   */
  claimUrl: string | null;
  /** When its payment was final; null before. */
  completedAt: string | null;
  /** When it was created. */
  createdAt: string;
  /** Until when it waits for an address: 30 days. */
  expiresAt: string;
  /** Who pays the network. ORGANIZATION: you. DEDUCTED: the payer, of a native coin. */
  feeMode: "ORGANIZATION" | "DEDUCTED";
  /** The key of the request that made it; null if the request had none. */
  idempotencyKey: string | null;
  /**
   * What was asked for. FULL: all that was credited in the mint and was not refunded. OVERPAID: what
   * was credited above the amount due. AMOUNT: an amount.
   */
  kind: "FULL" | "OVERPAID" | "AMOUNT";
  /** The mint: a token on a chain. */
  mintId: number;
  /** What it takes of which payments, by depositId. */
  parts: RefundPart[];
  /** Why the last address was not paid, for a person; null if none was refused. */
  problem: string | null;
  /** Your reason, which no payer sees; null for none. */
  reason: string | null;
  /** The refund. */
  refundId: string;
  /**
   * AWAITING_ADDRESS: it waits for the payer's address, see problem. REQUESTED: it has an address,
   * and no payment yet. SENT: a withdrawal pays it. COMPLETED: the payment is final. CANCELLED: you
   * took it back. EXPIRED: no one claimed it in time. After CANCELLED and EXPIRED the amount is in
   * the balance of CHECKOUT again.
   */
  status: "AWAITING_ADDRESS" | "REQUESTED" | "SENT" | "COMPLETED" | "CANCELLED" | "EXPIRED";
  /** The symbol, for people. It identifies nothing: two tokens may share it. */
  symbol: string;
  /** Where it goes; null while it waits for an address. */
  toAddress: string | null;
  /** The hash of its transaction; null before it has one. */
  txHash: string | null;
  /** When it last changed. */
  updatedAt: string;
  /** The withdrawal that pays the present address; null without one. */
  withdrawalId: string | null;
}

/** A page of refunds. */
export interface RefundPage {
  /** The items, in order. */
  data: Refund[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** What a refund takes of one payment. */
export interface RefundPart {
  /** The amount in atomic units. */
  amount: string;
  /** The id of the deposit. The same transfer on the chain always has the same id. */
  depositId: string;
}

/** Asks for a refund of a checkout. */
export interface RefundRequest {
  /**
   * What is given back: whole atomic units in ASCII digits without sign, exponent and leading zero,
   * or one of two words. FULL: all that is credited in the mint and not refunded. OVERPAID: what is
   * credited above the amount due, at the price of each payment.
   */
  amount: string;
  /**
   * Who pays the network; ORGANIZATION if it is left out. DEDUCTED, for the native coin of a chain
   * only: the payer receives the amount less the fee.
   */
  feeMode?: string | null;
  /**
   * Your name for this refund: 1 to 255 printable ASCII characters without a space. It never
   * expires. Without it every call makes another one.
   */
  idempotencyKey?: string | null;
  /** The mint that is given back, one that was paid. Needed where several can be refunded. */
  mintId?: number | null;
  /** Why, in your own words, which no payer sees. It is kept with the refund and in the audit log. */
  reason?: string | null;
  /**
   * Where it goes, on the chain of the payment. If it is left out, the answer has claimUrl, on which
   * the payer says it. An exchange pays from addresses that are not its customer's, so ask the
   * payer.
   */
  toAddress?: string | null;
}

/** Asks the service to send an event again. */
export interface ResendRequest {
  /** Only this endpoint. Leave it out for every endpoint that receives this event. */
  endpointId?: string | null;
}

/** How a flagged deposit was resolved, and the transfer that carried it out. */
export interface Resolution {
  /** The amount in atomic units. */
  amount: string | null;
  /** When it was decided. */
  decidedAt: string;
  /** The person or key that decided. */
  decidedBy: Actor;
  /** APPROVED, REJECTED or REDIRECTED. */
  decision: string;
  /**
   * The network fee, in atomic units of the native coin; null until the transaction is final. With
   * feeMode DEDUCTED, the part that the customer pays, as soon as it is decided.
   */
  networkFee: string | null;
  /** The note of the person who decided. */
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
  /** The decision that was attempted. */
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
   * The amount that was not in the customer's balance any more, in atomic units. Together with
   * takenBack it is the amount of the deposit.
   */
  loss: string;
  /** When the credit was reversed. */
  reversedAt: string;
  /** The amount that was taken from the customer's balance, in atomic units. */
  takenBack: string;
}

/** An endpoint with a new secret, which only this answer shows. */
export interface RotatedSecret {
  /** The date of the payload version. */
  apiVersion: string;
  /** When it was created. */
  createdAt: string;
  /** A note for people. */
  description: string;
  /** The webhook endpoint. */
  endpointId: string;
  /**
   * The events that the endpoint receives. Empty means the seven events of the interface and no
   * extension. * alone means all events, including later ones.
   */
  events: string[];
  /**
   * The first failed attempt since the last success; null when the last attempt succeeded. After
   * five days of failures the endpoint is DISABLED_BY_FAILURE.
   */
  failingSince: string | null;
  /** Limits which events the endpoint receives. */
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
   * When a request last used the former value, to the minute. Before formerKeyUntil it shows whether
   * a program still uses that value.
   */
  formerKeyLastUsedAt: string | null;
  /** Until when the former value works; null: it does not work. */
  formerKeyUntil: string | null;
  /** Whether it is the main key, which may make every call and manages the other keys. */
  isMain: boolean;
  /** When a request last used the present value, to the minute; null: not yet. */
  lastUsedAt: string | null;
  /** A name for people. */
  name: string;
  /** When the value was last replaced; null: never. */
  rolledAt: string | null;
  /**
   * What the key may do. READ: every GET. NO_MONEY_OUT: also changes that send no money out. FULL:
   * also payments. Only the main key manages API keys.
   */
  scope: "READ" | "NO_MONEY_OUT" | "FULL";
  /**
   * EXPIRED: expiresAt has passed. SUSPENDED: the operator of this service has switched
   * additionalApiKeys off; the key works again when the setting is on. REVOKED: the operator ended
   * the main key and has not rolled it. Statuses may be added without notice.
   */
  status: string;
}

/** A page of API keys. */
export interface ScopedKeyPage {
  /** The items, in order. */
  data: ScopedKey[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Makes an additional API key. */
export interface ScopedKeyRequest {
  /** When the key expires; null or left out: never. */
  expiresAt?: string | null;
  /**
   * For people: which program uses the key. 1 to 200 bytes without control characters or space
   * around it.
   */
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
   * When a request last used the former value, to the minute. Before formerKeyUntil it shows whether
   * a program still uses that value.
   */
  formerKeyLastUsedAt: string | null;
  /** Until when the former value works; null: it does not work. */
  formerKeyUntil: string | null;
  /** Whether it is the main key, which may make every call and manages the other keys. */
  isMain: boolean;
  /** When a request last used the present value, to the minute; null: not yet. */
  lastUsedAt: string | null;
  /** A name for people. */
  name: string;
  /** When the value was last replaced; null: never. */
  rolledAt: string | null;
  /**
   * What the key may do. READ: every GET. NO_MONEY_OUT: also changes that send no money out. FULL:
   * also payments. Only the main key manages API keys.
   */
  scope: "READ" | "NO_MONEY_OUT" | "FULL";
  /**
   * EXPIRED: expiresAt has passed. SUSPENDED: the operator of this service has switched
   * additionalApiKeys off; the key works again when the setting is on. REVOKED: the operator ended
   * the main key and has not rolled it. Statuses may be added without notice.
   */
  status: string;
}

/** The result of risk screening for the sender of a deposit. */
export interface Screening {
  /** The risk provider. */
  provider: string | null;
  /** Your own reference. The service shows it and can search for it. */
  reference: string | null;
  /** The provider's own score. */
  score: number | null;
  /** When the provider was asked. */
  screenedAt: string | null;
  /** NONE, LOW, MEDIUM, HIGH or SEVERE, in this order, or UNKNOWN, which is not part of the order. */
  severity: string | null;
  /** NOT_CONFIGURED, PENDING or PASSED, for example. */
  status: string;
}

/** A customer swap that takes long. */
export interface SwapDelayed {
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
   */
  customerId: string;
  /** The swap. */
  swap: SwapSummary;
}

/** A customer swap that failed after its creation, or what came back from it. */
export interface SwapFailed {
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
   */
  customerId: string;
  /**
   * The amount that had come back when the event was sent, in atomic units of the mint that was
   * given; null when nothing had.
   */
  refundedAmount: string | null;
  /** The swap. */
  swap: SwapSummary;
}

/** What a swap would bring now. It binds no one. */
export interface SwapQuote {
  /**
   * What would be received, in atomic units of the destination mint: the offer of the provider less
   * its fees and the cost of the delivery.
   */
  estimatedAmountOut: string;
  /** How long the provider expects the swap to take; null if it does not say. */
  estimatedTimeSeconds: number | null;
  /**
   * The fee of the platform, in atomic units of the source mint. Your organization is billed for it
   * when the swap is completed, and it is never taken from the swap.
   */
  feeAmount: string;
  /** The rate of feeAmount, in basis points. */
  feeBps: number;
  /**
   * The least amount that the offer allows the provider to deliver, in atomic units of the
   * destination mint.
   */
  minAmountOut: string;
  /**
   * How much estimatedAmountOut is below the price of other sources, in basis points; null when
   * there is no such price.
   */
  priceImpactBps: number | null;
  /** The swap provider with the best offer. Providers may be added without notice. */
  provider: string;
  /** When the provider was asked. */
  quotedAt: string;
  /**
   * Whole tokens of the destination mint for one whole token of the source mint, by
   * estimatedAmountOut.
   */
  rate: string;
  /** The value of amountIn in dollars, for display; null when there is no recent price. */
  usdValue: string | null;
}

/** Asks what a customer swap would bring. */
export interface SwapQuoteRequest {
  /** The amount to swap, in atomic units of the source mint. */
  amountIn: string;
  /** Your own id of the customer. The balance of the customer is not looked at. */
  customerId?: string | null;
  /** The mint that the customer gives. */
  fromMintId: number;
  /**
   * How much less than the offer the provider may deliver, in basis points; 100 if it is left out.
   * The service asks providers for at most 300.
   */
  slippageBps?: number | null;
  /** The mint that the customer receives. */
  toMintId: number;
}

/** Asks for a customer swap. */
export interface SwapRequest {
  /**
   * The amount that the customer gives, in atomic units of the source mint. ASCII digits without
   * sign, exponent and leading zero.
   */
  amountIn: string;
  /**
   * The customer's e-mail, for a customer who does not exist yet. Such a customer has no balance to
   * swap, so it never changes anything.
   */
  customerEmail?: string | null;
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
   */
  customerId: string;
  /** The mint that the customer gives. */
  fromMintId: number;
  /**
   * Your name for this swap: 1 to 255 printable ASCII characters without a space, one for each swap
   * that you intend and not for each attempt. It never expires. The header Idempotency-Key is not
   * read.
   */
  idempotencyKey: string;
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata?: Record<string, string> | null;
  /**
   * The least amount that you accept, in atomic units of the destination mint. If no provider offers
   * at least this much, the request is refused with 422 QUOTE_REJECTED.
   */
  minAmountOut?: string | null;
  /**
   * How much less than the offer the provider may deliver, in basis points; 100 if it is left out.
   * The service asks providers for at most 300.
   */
  slippageBps?: number | null;
  /** The mint that the customer receives. */
  toMintId: number;
}

/** A customer swap as events show it. */
export interface SwapSummary {
  /** The amount in atomic units of the mint that was given. */
  amountIn: string;
  /** The amount that arrived; null until it has. */
  amountOut: string | null;
  /** When it was created. */
  createdAt: string;
  /** The customer swap. */
  customerSwapId: string;
  /** The hash of the transaction that delivered. */
  destinationTxHash: string | null;
  /** The estimate, in atomic units of the mint that was received. */
  estimatedAmountOut: string;
  /** The mint that the customer gave. */
  fromMint: EmbeddedMint;
  /**
   * The key of the request that made the swap; empty if the swap was restored from the signer's
   * journal, which has only a hash of the key.
   */
  idempotencyKey: string;
  /** The hash of the transaction that paid the swap provider. */
  originTxHash: string | null;
  /** The mint that the customer received. */
  toMint: EmbeddedMint;
}

/** Asks for a sample event. */
export interface TestRequest {
  /** The type of the event. */
  type: "BATCH_PAYOUT_AWAITING_APPROVAL" | "BATCH_PAYOUT_COMPLETED" | "BATCH_PAYOUT_FAILED" | "BATCH_PAYOUT_PROCESSING" | "BATCH_PAYOUT_REJECTED" | "CHECKOUT_COMPLETED" | "CHECKOUT_EXCEPTION" | "CHECKOUT_EXPIRED" | "CHECKOUT_PROCESSING" | "CHECKOUT_REFUNDED" | "CREDIT_NOTE_ISSUED" | "CUSTOMER_DEPOSIT" | "CUSTOMER_DEPOSIT_APPROVED" | "CUSTOMER_DEPOSIT_REDIRECTED" | "CUSTOMER_DEPOSIT_REJECTED" | "CUSTOMER_DEPOSIT_REVERSED" | "CUSTOMER_DEPOSIT_SEEN" | "CUSTOMER_SWAP_DELAYED" | "CUSTOMER_SWAP_FAILED" | "CUSTOMER_SWAP_REFUNDED" | "CUSTOMER_WITHDRAW" | "CUSTOMER_WITHDRAW_APPROVED" | "CUSTOMER_WITHDRAW_AWAITING_APPROVAL" | "CUSTOMER_WITHDRAW_BLOCKED" | "CUSTOMER_WITHDRAW_CANCELLED" | "CUSTOMER_WITHDRAW_COMPLETED" | "CUSTOMER_WITHDRAW_FAILED" | "CUSTOMER_WITHDRAW_REJECTED" | "INVOICE_ISSUED" | "ORGANIZATION_DEPOSIT" | "ORGANIZATION_DEPOSIT_REVERSED" | "ORGANIZATION_SWAP_COMPLETED" | "ORGANIZATION_SWAP_FAILED" | "ORGANIZATION_WITHDRAW" | "ORGANIZATION_WITHDRAW_APPROVED" | "ORGANIZATION_WITHDRAW_AWAITING_APPROVAL" | "ORGANIZATION_WITHDRAW_BLOCKED" | "ORGANIZATION_WITHDRAW_CANCELLED" | "ORGANIZATION_WITHDRAW_COMPLETED" | "ORGANIZATION_WITHDRAW_FAILED" | "ORGANIZATION_WITHDRAW_REJECTED" | "TRANSFER_COMPLETED";
}

/**
 * A transfer between two balances of your organization. It has no states: it is complete when it
 * exists.
 */
export interface Transfer {
  /** The amount in atomic units. */
  amount: string;
  /** The amount in whole tokens. */
  amountDecimal: string;
  /** When it was created. */
  createdAt: string;
  /** Who pays. */
  from: Party;
  /**
   * Your name for this payment: 1 to 255 printable ASCII characters without a space. It never
   * expires.
   */
  idempotencyKey: string;
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata: Record<string, string>;
  /** The symbol of the mint, for people. */
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
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** One side of a transfer: either a customer or a product. */
export interface TransferParty {
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
   */
  customerId?: string | null;
  /** A balance of your own organization. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | null;
}

/** Asks for a transfer between two balances. */
export interface TransferRequest {
  /**
   * Whole atomic units, or whole tokens with useDecimal: then at most as many digits after the point
   * as the mint has decimals. ASCII digits without sign, exponent and leading zero.
   */
  amount: string;
  /** Who pays. */
  from: TransferParty;
  /**
   * Your name for this transfer: 1 to 255 printable ASCII characters without a space. It never
   * expires. Required, here or in the header Idempotency-Key.
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
  /** true: amount is in whole tokens. */
  useDecimal?: boolean;
}

/** Has no fields. */
export interface UnfreezeRequest {
}

/** A payment that arrived for your checkouts and named none of them, or several. */
export interface UnmatchedPayment {
  /** The amount in atomic units. */
  amount: string;
  /** When it was assigned; null while it is unmatched. */
  assignedAt: string | null;
  /**
   * Who assigned it: a person, a key, or SYSTEM once its final block named the checkout. null while
   * it is unmatched.
   */
  assignedBy: Actor | null;
  /** The checkout whose payment it is; null while it is unmatched. */
  assignedCheckoutId: string | null;
  /** The chain. Chains may be added without notice. */
  chain: string;
  /**
   * The checkout of the address, for NO_CHECKOUT. The database lacks it. null for every other
   * reason.
   */
  checkoutId: string | null;
  /** When it was first seen. */
  createdAt: string;
  /** The id of the deposit. The same transfer on the chain always has the same id. */
  depositId: string;
  /** The status of its deposit. Its amount is in the balance of CHECKOUT once it is CREDITED. */
  depositStatus: "DETECTED" | "CONFIRMING" | "SCREENING" | "CREDITED" | "FLAGGED" | "APPROVING" | "REJECTING" | "REDIRECTING" | "RESOLUTION_STUCK" | "REJECTED" | "REDIRECTED" | "ORPHANED" | "UNSUPPORTED" | "BELOW_MINIMUM" | "REVERSED";
  /** The mint; null if the token is not in the catalogue. */
  mintId: number | null;
  /**
   * NO_REFERENCE: it was paid to the address that your checkouts share on Solana, and named none.
   * SEVERAL_REFERENCES: it named several. NO_CHECKOUT: it was paid to the address of a checkout that
   * the database lacks, see checkoutId. OTHER_REFERENCE: its final block named another checkout than
   * the first block that showed it.
   */
  reason: "NO_REFERENCE" | "SEVERAL_REFERENCES" | "NO_CHECKOUT" | "OTHER_REFERENCE";
  /**
   * Up to five open checkouts that asked for just this amount in this mint, the likeliest first. An
   * equal amount proves nothing, so a person decides. Empty once it is assigned.
   */
  suggestedCheckoutIds: string[];
  /** Its symbol; null if the token is not in the catalogue. */
  symbol: string | null;
  /** The hash of the transaction; null until there is one. */
  txHash: string;
}

/** A page of unmatched payments. */
export interface UnmatchedPaymentPage {
  /** The items, in order. */
  data: UnmatchedPayment[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Asks for a refund of a payment that named no checkout. */
export interface UnmatchedRefundRequest {
  /**
   * Who pays the network; ORGANIZATION if it is left out. DEDUCTED, for the native coin of a chain
   * only: the payer receives the amount less the fee.
   */
  feeMode?: string | null;
  /**
   * Your name for this refund: 1 to 255 printable ASCII characters without a space. It never
   * expires. Without it every call refunds what is left.
   */
  idempotencyKey?: string | null;
  /** Why, in your own words, which no payer sees. It is kept with the refund and in the audit log. */
  reason?: string | null;
  /**
   * Where it goes, on the chain of the payment. If it is left out, the answer has claimUrl, on which
   * the payer says it. An exchange pays from addresses that are not its customer's, so ask the
   * payer.
   */
  toAddress?: string | null;
}

/** A job that sends events again, and its progress. */
export interface WebhookJob {
  /** When the job had queued everything. */
  completedAt: string | null;
  /** When it was created. */
  createdAt: string;
  /** The number of queued events that were delivered since. */
  delivered: number;
  /** The endpoint; null for every endpoint that receives the event. */
  endpointId: string | null;
  /** The event of a RESEND. */
  eventId: string | null;
  /** The number of events that the job looked at and that the endpoint receives. */
  examined: number;
  /**
   * The number of queued events that failed after the whole schedule, or that were cancelled with
   * their endpoint.
   */
  failed: number;
  /** The job. */
  jobId: string;
  /** RESEND or RECOVER. */
  kind: "RESEND" | "RECOVER";
  /** Whether the job sends only events that were never delivered. */
  onlyFailed: boolean;
  /**
   * The number of queued events that have not ended yet. An event that a later job queued again
   * counts for that job.
   */
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

/** An address that your organization's own money may be paid to. */
export interface WhitelistedAddress {
  /** The address, in the canonical form of its chain. */
  address: string;
  /** The chain of the address. */
  chain: string;
  /** When the operator added it. */
  createdAt: string;
  /** The owner of the address, for people. */
  label: string;
  /**
   * WAITING: the signer has not endorsed it yet. COOLING_OFF: not usable before usableFrom. USABLE.
   * REFUSED: the signer refuses it; ask the operator of this service. REMOVED.
   */
  status: string;
  /** From when it is usable. */
  usableFrom: string;
  /** The entry. */
  whitelistedAddressId: string;
}

/** A page of whitelisted addresses. */
export interface WhitelistedAddressPage {
  /** The items, in order. */
  data: WhitelistedAddress[];
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Asks for a payment from a customer's balance. */
export interface WithdrawRequest {
  /**
   * Whole atomic units, or whole tokens with useDecimal: then at most as many digits after the point
   * as the mint has decimals. ASCII digits without sign, exponent and leading zero.
   */
  amount: string;
  /**
   * Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control characters, compared
   * byte for byte. No part of it between slashes or backslashes may be a dot segment (. or .., also
   * with %2e), because URL libraries change the path at such a segment. A / in the id becomes %2F in
   * a path, and a proxy that decodes it breaks the path.
   */
  customerId: string;
  /**
   * Who pays the network fee. ORGANIZATION: your organization is billed, and the destination
   * receives the whole amount. DEDUCTED, for the native coin of a chain only: the customer pays
   * amount, and the destination receives amount less networkFee. This networkFee is fixed when the
   * payment is ordered; the organization bears or keeps any difference to what the network takes.
   */
  feeMode?: "ORGANIZATION" | "DEDUCTED" | null;
  /**
   * Your name for this payment: 1 to 255 printable ASCII characters without a space. It never
   * expires.
   */
  idempotencyKey?: string | null;
  /**
   * The highest network fee that you accept, in atomic units of the native coin, whatever useDecimal
   * says. While the network asks for more, the withdrawal is AWAITING_APPROVAL with NETWORK_FEE, and
   * the service makes no paying transaction above the limit.
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
   * Your statement about the parties: any object of up to 4096 bytes. The service stores it and
   * shows it with the withdrawal. It does not check it, and no event has it.
   */
  travelRule?: Record<string, unknown> | null;
  /** true: amount is in whole tokens. */
  useDecimal?: boolean;
}

/** A payment to an address, from a customer's balance or from one of the organization's own. */
export interface Withdrawal {
  /** The amount in atomic units. */
  amount: string;
  /** The amount in whole tokens. */
  amountDecimal: string;
  /**
   * The first digits of what people sign by the organization's rule on approvals. The page, the mail
   * to the approvers and the signer's log have the same ones. Absent for a withdrawal that needs no
   * signature.
   */
  approvalFingerprint?: string;
  /**
   * Why: REQUIRE_APPROVAL, USD_THRESHOLD, LOW_LIQUIDITY, DESTINATION_ADDRESS, RISK_REVIEW,
   * PRICE_UNAVAILABLE, POLICY_LIMIT, NETWORK_FEE (the network asks for more than maxNetworkFee),
   * DUPLICATE_KEY (the signer remembers another payment with this idempotency key; nothing was
   * sent), RESTORED (created again from the signer's journal after a restore; nothing was sent) or
   * APPROVAL_RULE (people sign it with their passkeys, by the organization's rule).
   */
  approvalReasons: string[];
  /** How many of the needed approvals it has. */
  approvals: Approvals;
  /** When it was approved. */
  approvedAt: string | null;
  /** The batch payout of which it pays a row, or null. */
  batchPayoutId: string | null;
  /** When it was first sent to the network. */
  broadcastAt: string | null;
  /** The status on the chain. */
  chainStatus: "NONE" | "PENDING" | "INCLUDED" | "FINALIZED" | "REVERTED" | "DROPPED" | "REPLACED";
  /** When its outcome became final. */
  completedAt: string | null;
  /** When it was created. */
  createdAt: string;
  /**
   * The costs of the payment that the customer pays, in the withdrawn token and in addition to the
   * amount. Absent when your organization charges nothing (chargeCustomerCosts).
   */
  customerCharge?: CustomerCharge | null;
  /** Your own id of the customer; null for your organization's own withdrawal, which has a product. */
  customerId: string | null;
  /** A page that shows the transaction, if an explorer is configured. */
  explorerUrl: string | null;
  /**
   * Why it failed: REVERTED, CANCELLED, or POLICY_LIMIT (the signer's limits were lowered below it).
   * The money is back in the balance.
   */
  failureReason: string | null;
  /**
   * Who pays the network fee. ORGANIZATION: your organization is billed, and the destination
   * receives the whole amount. DEDUCTED, for the native coin of a chain only: the customer pays
   * amount, and the destination receives amount less networkFee. This networkFee is fixed when the
   * payment is ordered; the organization bears or keeps any difference to what the network takes.
   */
  feeMode: "ORGANIZATION" | "DEDUCTED";
  /**
   * Your name for this payment: 1 to 255 printable ASCII characters without a space. It never
   * expires.
   */
  idempotencyKey: string | null;
  /**
   * The highest network fee that you accept, in atomic units of the native coin, whatever useDecimal
   * says. While the network asks for more, the withdrawal is AWAITING_APPROVAL with NETWORK_FEE, and
   * the service makes no paying transaction above the limit.
   */
  maxNetworkFee?: string | null;
  /** The memo that belongs to the address; null on a chain without memos. */
  memo: string | null;
  /** Your own keys and values: at most 20 keys of up to 40 characters, values of up to 500. */
  metadata: Record<string, string>;
  /** The symbol of the mint, for people. */
  mint: EmbeddedMint;
  /** The mint: a token on a chain. */
  mintId: number;
  /**
   * The network fee, in atomic units of the native coin; null until the transaction is final. With
   * feeMode DEDUCTED, the part that the customer pays, as soon as it is decided.
   */
  networkFee: string | null;
  /** The mint of networkFee: the chain's native coin. */
  networkFeeMintId: number | null;
  /** The swap of the organization's own money whose output it pays, or null. */
  organizationSwapId: string | null;
  /** The product whose balance pays. A customer's withdrawal does not have it. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | null;
  /** Your own reference. The service shows it and can search for it. */
  reference: string | null;
  /** The refund of a checkout that it pays, or null. */
  refundId: string | null;
  /** The note of the person who removed it. */
  rejectedReason: string | null;
  /** Earlier transactions for the same payment. At most one of all of them pays. */
  replacedTxHashes: string[];
  /** Whether a person has to approve it, or had to. */
  requiresApproval: boolean;
  /** The row of the batch payout that it pays, from 1, or null. */
  row: number | null;
  /** The result of risk screening. */
  screening: WithdrawalScreening;
  /** The status in the service's books. */
  status: "AWAITING_APPROVAL" | "PROCESSING" | "BROADCAST" | "COMPLETED" | "FAILED" | "REJECTED" | "CANCELLED" | "BLOCKED";
  /** The destination, in the canonical form of its chain. */
  toAddress: string;
  /**
   * Your statement about the parties: any object of up to 4096 bytes. The service stores it and
   * shows it with the withdrawal. It does not check it, and no event has it.
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
  /** Whether there are more items. */
  hasMore: boolean;
  /** The cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** The result of risk screening for a destination. */
export interface WithdrawalScreening {
  /** The risk provider. */
  provider: string | null;
  /** NONE, LOW, MEDIUM, HIGH or SEVERE, in this order, or UNKNOWN, which is not part of the order. */
  severity: string | null;
  /**
   * PASSED, BLOCKED, UNAVAILABLE when too few providers answered, or NOT_CONFIGURED when no provider
   * is configured.
   */
  status: string;
}

/** What each type of event carries. */
export interface EventData {
  BATCH_PAYOUT_AWAITING_APPROVAL: BatchPayout;
  BATCH_PAYOUT_COMPLETED: BatchPayout;
  BATCH_PAYOUT_FAILED: BatchPayout;
  BATCH_PAYOUT_PROCESSING: BatchPayout;
  BATCH_PAYOUT_REJECTED: BatchPayout;
  CHECKOUT_COMPLETED: Checkout;
  CHECKOUT_EXCEPTION: Checkout;
  CHECKOUT_EXPIRED: Checkout;
  CHECKOUT_PROCESSING: Checkout;
  CHECKOUT_REFUNDED: Checkout;
  CREDIT_NOTE_ISSUED: CreditNote;
  CUSTOMER_DEPOSIT: Deposit;
  CUSTOMER_DEPOSIT_APPROVED: Deposit;
  CUSTOMER_DEPOSIT_REDIRECTED: Deposit;
  CUSTOMER_DEPOSIT_REJECTED: Deposit;
  CUSTOMER_DEPOSIT_REVERSED: Deposit;
  CUSTOMER_DEPOSIT_SEEN: Deposit;
  CUSTOMER_SWAP_DELAYED: SwapDelayed;
  CUSTOMER_SWAP_FAILED: SwapFailed;
  CUSTOMER_SWAP_REFUNDED: SwapFailed;
  CUSTOMER_WITHDRAW: Withdrawal;
  CUSTOMER_WITHDRAW_APPROVED: Withdrawal;
  CUSTOMER_WITHDRAW_AWAITING_APPROVAL: Withdrawal;
  CUSTOMER_WITHDRAW_BLOCKED: Withdrawal;
  CUSTOMER_WITHDRAW_CANCELLED: Withdrawal;
  CUSTOMER_WITHDRAW_COMPLETED: Withdrawal;
  CUSTOMER_WITHDRAW_FAILED: Withdrawal;
  CUSTOMER_WITHDRAW_REJECTED: Withdrawal;
  INVOICE_ISSUED: Invoice;
  ORGANIZATION_DEPOSIT: Deposit;
  ORGANIZATION_DEPOSIT_REVERSED: Deposit;
  ORGANIZATION_SWAP_COMPLETED: OrganizationSwap;
  ORGANIZATION_SWAP_FAILED: OrganizationSwap;
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
 * An event, as a webhook and GET /events carry it. Its type says what its data is. Types can be
 * added without notice: ignore a type that you do not know.
 */
export type Event = { [T in keyof EventData]: Omit<Envelope, "type" | "data"> & { type: T; data: EventData[T] } }[keyof EventData];

/** The parameters of listMints. */
export interface ListMintsParams {
  /** Only on this chain. */
  chain?: "ETHEREUM" | "BASE" | "ARBITRUM" | "OPTIMISM" | "POLYGON" | "BSC" | "AVALANCHE" | "SOLANA" | "BITCOIN" | "TRON" | undefined;
  /** Only mints with exactly this symbol. */
  symbol?: string | undefined;
  /** true: only mints that your customers can swap. false: only those that they cannot. */
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
   * true: only deposits that screening flagged, resolved or not. false: only deposits that it did
   * not flag. With status CREDITED, REJECTED or REDIRECTED, true lists the resolved ones.
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

/** The parameters of listCustomerSwaps. */
export interface ListCustomerSwapsParams {
  /** Only of this customer, compared byte for byte. */
  customerId?: string | undefined;
  /** Only in this status. */
  status?: "PENDING" | "DEPOSITING" | "PROCESSING" | "COMPLETED" | "FAILED" | undefined;
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

/** The parameters of listFees. */
export interface ListFeesParams {
  /** Only fees of this month in UTC, such as 2026-01. All fees without it. */
  month?: string | undefined;
  /** The order by time of creation: desc, the default, is newest first; asc is oldest first. */
  order?: "desc" | "asc" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** The parameters of listDepositSwapTokens. */
export interface ListDepositSwapTokensParams {
  /** Only on this chain, in any case of letters. It may be a chain without mints. */
  chain?: string | undefined;
  /** Only tokens with this text in the symbol or the contract, in any case of letters. */
  search?: string | undefined;
}

/** The parameters of listDepositSwaps. */
export interface ListDepositSwapsParams {
  /** Only of this customer, compared byte for byte. */
  customerId?: string | undefined;
  /** Only in this status. */
  status?: "AWAITING_DEPOSIT" | "UNDERPAID" | "PROCESSING" | "COMPLETED" | "REFUNDED" | "FAILED" | "EXPIRED" | undefined;
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

/** The parameters of listOrganizationSwaps. */
export interface ListOrganizationSwapsParams {
  /** Only of this product. */
  product?: "CUSTODIAL" | "CHECKOUT" | "BATCH_PAYOUT" | undefined;
  /** Only in this status. */
  status?: "AWAITING_APPROVAL" | "REJECTED" | "CANCELLED" | "PENDING" | "DEPOSITING" | "PROCESSING" | "COMPLETED" | "FAILED" | undefined;
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

/** The parameters of listWhitelistedAddresses. */
export interface ListWhitelistedAddressesParams {
  /** The order by time of creation: desc, the default, is newest first; asc is oldest first. */
  order?: "desc" | "asc" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** The parameters of listProducts. */
export interface ListProductsParams {
  /** Only in this status. */
  status?: "ACTIVE" | "ARCHIVED" | undefined;
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

/** The parameters of listPaymentLinks. */
export interface ListPaymentLinksParams {
  /** Only in this status. */
  status?: "ACTIVE" | "PAUSED" | "ENDED" | undefined;
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

/** The parameters of listCheckouts. */
export interface ListCheckoutsParams {
  /** Only in this status. */
  status?: "OPEN" | "PROCESSING" | "COMPLETED" | "EXPIRED" | "CANCELLED" | undefined;
  /** Only with this exception, which may be one of several. */
  exception?: "FLAGGED" | "REVERSED" | "WRONG_TOKEN" | "OVERPAID" | "PAID_LATE" | "UNDERPAID" | "REFUNDED" | undefined;
  /** Only of this payer, compared byte for byte. */
  customerId?: string | undefined;
  /** Only with this reference of yours. */
  reference?: string | undefined;
  /** Only of this payment link. */
  linkId?: string | undefined;
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

/** The parameters of listUnmatchedPayments. */
export interface ListUnmatchedPaymentsParams {
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

/** The parameters of listRefunds. */
export interface ListRefundsParams {
  /** Only of this checkout. */
  checkoutId?: string | undefined;
  /** Only in this status. */
  status?: "AWAITING_ADDRESS" | "REQUESTED" | "SENT" | "COMPLETED" | "CANCELLED" | "EXPIRED" | undefined;
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

/** The parameters of createBatchPayout. */
export interface CreateBatchPayoutParams {
  /** The mode of a list in CSV. In JSON it is a member of the body. */
  mode?: "STRICT" | "PARTIAL" | undefined;
  /** Whether amounts of a list in CSV are in whole tokens. In JSON it is a member of the body. */
  useDecimal?: boolean | undefined;
}

/** The parameters of listBatchPayoutItems. */
export interface ListBatchPayoutItemsParams {
  /** Only rows in this status. */
  status?: "UNREADABLE" | "EXCLUDED" | "REFUSED" | "WAITING" | "AWAITING_APPROVAL" | "PROCESSING" | "BROADCAST" | "COMPLETED" | "FAILED" | "REJECTED" | "CANCELLED" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** The parameters of listBatchPayouts. */
export interface ListBatchPayoutsParams {
  /** Only in this status. */
  status?: "DRAFT" | "VALIDATING" | "INVALID" | "AWAITING_APPROVAL" | "PROCESSING" | "COMPLETED" | "PARTIALLY_COMPLETED" | "REJECTED" | "CANCELLED" | "FAILED" | undefined;
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

/** The parameters of listCreditNotes. */
export interface ListCreditNotesParams {
  /** Only of this invoice. */
  invoiceId?: string | undefined;
  /** The order by time of creation: desc, the default, is newest first; asc is oldest first. */
  order?: "desc" | "asc" | undefined;
  /** The number of items on a page; the default is 50. */
  limit?: number | undefined;
  /** The nextCursor of the previous page, with the same filters and order. */
  cursor?: string | undefined;
}

/** The parameters of listInvoices. */
export interface ListInvoicesParams {
  /** Only in this status. */
  status?: "ISSUED" | "PAID" | undefined;
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
  type?: "BATCH_PAYOUT_AWAITING_APPROVAL" | "BATCH_PAYOUT_COMPLETED" | "BATCH_PAYOUT_FAILED" | "BATCH_PAYOUT_PROCESSING" | "BATCH_PAYOUT_REJECTED" | "CHECKOUT_COMPLETED" | "CHECKOUT_EXCEPTION" | "CHECKOUT_EXPIRED" | "CHECKOUT_PROCESSING" | "CHECKOUT_REFUNDED" | "CREDIT_NOTE_ISSUED" | "CUSTOMER_DEPOSIT" | "CUSTOMER_DEPOSIT_APPROVED" | "CUSTOMER_DEPOSIT_REDIRECTED" | "CUSTOMER_DEPOSIT_REJECTED" | "CUSTOMER_DEPOSIT_REVERSED" | "CUSTOMER_DEPOSIT_SEEN" | "CUSTOMER_SWAP_DELAYED" | "CUSTOMER_SWAP_FAILED" | "CUSTOMER_SWAP_REFUNDED" | "CUSTOMER_WITHDRAW" | "CUSTOMER_WITHDRAW_APPROVED" | "CUSTOMER_WITHDRAW_AWAITING_APPROVAL" | "CUSTOMER_WITHDRAW_BLOCKED" | "CUSTOMER_WITHDRAW_CANCELLED" | "CUSTOMER_WITHDRAW_COMPLETED" | "CUSTOMER_WITHDRAW_FAILED" | "CUSTOMER_WITHDRAW_REJECTED" | "INVOICE_ISSUED" | "ORGANIZATION_DEPOSIT" | "ORGANIZATION_DEPOSIT_REVERSED" | "ORGANIZATION_SWAP_COMPLETED" | "ORGANIZATION_SWAP_FAILED" | "ORGANIZATION_WITHDRAW" | "ORGANIZATION_WITHDRAW_APPROVED" | "ORGANIZATION_WITHDRAW_AWAITING_APPROVAL" | "ORGANIZATION_WITHDRAW_BLOCKED" | "ORGANIZATION_WITHDRAW_CANCELLED" | "ORGANIZATION_WITHDRAW_COMPLETED" | "ORGANIZATION_WITHDRAW_FAILED" | "ORGANIZATION_WITHDRAW_REJECTED" | "TRANSFER_COMPLETED" | undefined;
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
   * page. Read decimals before you convert an amount, and swappable before you offer a swap.
   *
   * GET /mints. The client repeats the call if no answer comes.
   */
  listMints(params: ListMintsParams = {}, options: CallOptions = {}): Promise<MintPage> {
    return this.#connection.call<MintPage>({ method: "GET", path: `/mints`, repeat: "ALWAYS", headers: { "if-none-match": params.ifNoneMatch }, query: { chain: params.chain, symbol: params.symbol, swappable: params.swappable, depositEnabled: params.depositEnabled, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listMints, over all pages. */
  mints(params: ListMintsParams = {}, options: CallOptions = {}): AsyncGenerator<Mint, void, undefined> {
    return each(params.cursor, (cursor) => this.listMints({ ...params, cursor }, options));
  }

  /**
   * Freeze a customer. Stops payments from the customer's balances: withdrawals and transfers out
   * are refused with 403 CUSTOMER_FROZEN, and a payment that is not sent yet waits. The service
   * still credits deposits and sends their events. A repeated call changes nothing. The body may be
   * left out.
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
   * Read a customer's balances. One row for each mint of which the customer had a movement. total is
   * available + pendingWithdraw + inSwap; it does not include pendingDeposit and held.
   *
   * GET /customers/{customerId}/balances. The client repeats the call if no answer comes.
   */
  listCustomerBalances(customerId: string, options: CallOptions = {}): Promise<Balances> {
    return this.#connection.call<Balances>({ method: "GET", path: `/customers/${segment("customerId", customerId)}/balances`, repeat: "ALWAYS" }, options);
  }

  /**
   * List customers. The organization's customers. The first POST /deposit for a customer creates it,
   * or a transfer to it. With Accept: text/csv the call returns everything that the filters select
   * as one table, as of one moment, without limit and cursor. If the table breaks off, the
   * connection ends without the end of the answer. A cell that a spreadsheet would read as a formula
   * has an apostrophe in front of it.
   *
   * GET /customers. The client repeats the call if no answer comes.
   */
  listCustomers(params: ListCustomersParams = {}, options: CallOptions = {}): Promise<CustomerPage> {
    return this.#connection.call<CustomerPage>({ method: "GET", path: `/customers`, repeat: "ALWAYS", query: { customerId: params.customerId, status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listCustomers, over all pages. */
  customers(params: ListCustomersParams = {}, options: CallOptions = {}): AsyncGenerator<Customer, void, undefined> {
    return each(params.cursor, (cursor) => this.listCustomers({ ...params, cursor }, options));
  }

  /**
   * What listCustomers has as one table, without limit and cursor. The table is read as it arrives.
   * A read error means that the table is not complete.
   */
  listCustomersCSV(params: ListCustomersParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/customers`, repeat: "ALWAYS", query: { customerId: params.customerId, status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Lift your freeze of a customer. Lifts the freeze that your organization put on the customer. A
   * freeze by the operator, or by the service after a finality break, is another freeze and stays:
   * the customer is then still FROZEN. If your organization has no freeze on the customer, the call
   * is refused with 403 OPERATOR_ONLY. A repeated call changes nothing. The body may be left out.
   *
   * POST /customers/{customerId}/unfreeze. The client repeats the call if no answer comes.
   */
  unfreezeCustomer(customerId: string, options: CallOptions = {}): Promise<Customer> {
    return this.#connection.call<Customer>({ method: "POST", path: `/customers/${segment("customerId", customerId)}/unfreeze`, repeat: "ALWAYS" }, options);
  }

  /**
   * Change a customer. Changes the e-mail, the metadata or both. Fields that are left out stay as
   * they are; metadata is replaced as a whole. Allowlists go by the e-mail, so a changed e-mail does
   * not count there for 24 hours. The same e-mail in other letter case is no change.
   *
   * PATCH /customers/{customerId}. The client repeats the call if no answer comes.
   */
  updateCustomer(customerId: string, body: CustomerChange, options: CallOptions = {}): Promise<Customer> {
    return this.#connection.call<Customer>({ method: "PATCH", path: `/customers/${segment("customerId", customerId)}`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Approve a flagged deposit. Credits the flagged deposit to your customer at once and sends
   * CUSTOMER_DEPOSIT_APPROVED. It sends no second CUSTOMER_DEPOSIT. The call is available once the
   * operator of this service switches flaggedDepositApiEnabled on for your organization. The first
   * decision about a deposit wins. Repeating it returns the same answer; every other decision is
   * refused with 409 and currentStatus. The body may be left out.
   *
   * POST /deposits/{depositId}/approve. The client repeats the call if no answer comes.
   */
  approveDeposit(depositId: string, body: DecisionNote = {}, options: CallOptions = {}): Promise<Deposit> {
    return this.#connection.call<Deposit>({ method: "POST", path: `/deposits/${segment("depositId", depositId)}/approve`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Get a deposit address. The address for a customer on the mint's chain. Every call returns the
   * same address, for every mint of that chain. The first call creates the customer. The service
   * credits a deposit when its block is final, and sends CUSTOMER_DEPOSIT.
   *
   * POST /deposit. The client repeats the call if no answer comes.
   */
  createDepositAddress(body: DepositRequest, options: CallOptions = {}): Promise<DepositAddress> {
    return this.#connection.call<DepositAddress>({ method: "POST", path: `/deposit`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Get a deposit address of your own. The address of one of your products on the mint's chain.
   * Every call returns the same address, for every mint of that chain. Deposits to it belong to your
   * organization. The service credits them to the product when their block is final, under the same
   * guards as a customer's deposit, and sends ORGANIZATION_DEPOSIT to endpoints that name it.
   *
   * POST /organization-deposit. The client sends the call once.
   */
  createOrganizationDepositAddress(body: ProductDepositRequest, options: CallOptions = {}): Promise<ProductAddress> {
    return this.#connection.call<ProductAddress>({ method: "POST", path: `/organization-deposit`, repeat: "NEVER", body }, options);
  }

  /**
   * Read a deposit. One deposit.
   *
   * GET /deposits/{depositId}. The client repeats the call if no answer comes.
   */
  getDeposit(depositId: string, options: CallOptions = {}): Promise<Deposit> {
    return this.#connection.call<Deposit>({ method: "GET", path: `/deposits/${segment("depositId", depositId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List deposits. Deposits to the addresses of customers and of your own products, including those
   * that are not final yet. A deposit has either customerId or product. With Accept: text/csv the
   * call returns everything that the filters select as one table, as of one moment, without limit
   * and cursor. If the table breaks off, the connection ends without the end of the answer. A cell
   * that a spreadsheet would read as a formula has an apostrophe in front of it.
   *
   * GET /deposits. The client repeats the call if no answer comes.
   */
  listDeposits(params: ListDepositsParams = {}, options: CallOptions = {}): Promise<DepositPage> {
    return this.#connection.call<DepositPage>({ method: "GET", path: `/deposits`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, status: params.status, isFlagged: params.isFlagged, mintId: params.mintId, chain: params.chain, txHash: params.txHash, address: params.address, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listDeposits, over all pages. */
  deposits(params: ListDepositsParams = {}, options: CallOptions = {}): AsyncGenerator<Deposit, void, undefined> {
    return each(params.cursor, (cursor) => this.listDeposits({ ...params, cursor }, options));
  }

  /**
   * What listDeposits has as one table, without limit and cursor. The table is read as it arrives. A
   * read error means that the table is not complete.
   */
  listDepositsCSV(params: ListDepositsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/deposits`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, status: params.status, isFlagged: params.isFlagged, mintId: params.mintId, chain: params.chain, txHash: params.txHash, address: params.address, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Reject a flagged deposit. Sends the flagged deposit back to the address that it came from. The
   * network fee comes out of a native coin; of SOL the whole amount goes back, except what the
   * network requires to stay on the address. The deposit is REJECTING until the transfer is final.
   * Then it is REJECTED, resolution has the hash, and the service sends CUSTOMER_DEPOSIT_REJECTED.
   * If an attempt fails before anything can reach the chain, the deposit is FLAGGED again and
   * resolutionAttempts has the attempt. After that point only the operator can complete it. Look at
   * returnAddressRisk and flagReason first. The call is available once the operator of this service
   * switches flaggedDepositApiEnabled on for your organization. The first decision about a deposit
   * wins. Repeating it returns the same answer; every other decision is refused with 409 and
   * currentStatus. The body may be left out. Only the operator can redirect a deposit: POST
   * /deposits/{depositId}/redirect answers 403 OPERATOR_ONLY.
   *
   * POST /deposits/{depositId}/reject. The client repeats the call if no answer comes.
   */
  rejectDeposit(depositId: string, body: DecisionNote = {}, options: CallOptions = {}): Promise<Deposit> {
    return this.#connection.call<Deposit>({ method: "POST", path: `/deposits/${segment("depositId", depositId)}/reject`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Cancel a withdrawal. Ends a withdrawal that is AWAITING_APPROVAL, or that is PROCESSING and
   * waits before the signer signs anything of it. The withdrawal becomes CANCELLED, its amount is
   * available again, and the service sends CUSTOMER_WITHDRAW_CANCELLED, or
   * ORGANIZATION_WITHDRAW_CANCELLED for a withdrawal of your organization's own. If the withdrawal
   * was released for payment, the signer first voids it. If the signer does not answer, the call
   * answers 503: the withdrawal will never be paid, and its amount stays held until it becomes
   * CANCELLED, without another call. When a cancel, an approval and a removal race, one wins; the
   * others are refused with 409 and currentStatus. So is a repeated cancel: currentStatus CANCELLED
   * says that the withdrawal is cancelled.
   *
   * POST /withdrawals/{withdrawalId}/cancel. The client sends the call once.
   */
  cancelWithdrawal(withdrawalId: string, options: CallOptions = {}): Promise<Withdrawal> {
    return this.#connection.call<Withdrawal>({ method: "POST", path: `/withdrawals/${segment("withdrawalId", withdrawalId)}/cancel`, repeat: "NEVER" }, options);
  }

  /**
   * Withdraw from a customer's balance. Holds the amount and pays it to an address, or waits for an
   * approval. Send an idempotencyKey for each payment: the same key with the same parameters returns
   * the same withdrawal and pays nothing more. A key never expires. Every field except metadata is a
   * parameter, including reference: another value under a known key is refused with 409
   * IDEMPOTENCY_CONFLICT. A 4xx means that this request held nothing and sent nothing. A 451 means
   * that risk screening refuses the destination: no amount is held, the service records the
   * withdrawal as BLOCKED, and the same key always gets this answer. After a 5xx or no answer,
   * repeat with the same key.
   *
   * POST /withdraw. The client repeats the call if no answer comes and it has an idempotencyKey;
   * without one it sends the call once.
   */
  createWithdrawal(body: WithdrawRequest, options: CallOptions = {}): Promise<Withdrawal> {
    return this.#connection.call<Withdrawal>({ method: "POST", path: `/withdraw`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * Ask what a withdrawal would cost. Returns the highest fee that the network would take now, and
   * how much the customer could withdraw. It takes the body of POST /withdraw, of which only mintId
   * is required. customerId, amount, toAddress and feeMode make the answer more precise; the call
   * ignores the other fields. It holds nothing and promises nothing: ask again after expiresAt.
   *
   * POST /withdraw/estimate. The client repeats the call if no answer comes.
   */
  estimateWithdrawal(body: EstimateRequest, options: CallOptions = {}): Promise<Estimate> {
    return this.#connection.call<Estimate>({ method: "POST", path: `/withdraw/estimate`, repeat: "ALWAYS", body, key: body.idempotencyKey }, options);
  }

  /**
   * Read a withdrawal. One withdrawal.
   *
   * GET /withdrawals/{withdrawalId}. The client repeats the call if no answer comes.
   */
  getWithdrawal(withdrawalId: string, options: CallOptions = {}): Promise<Withdrawal> {
    return this.#connection.call<Withdrawal>({ method: "GET", path: `/withdrawals/${segment("withdrawalId", withdrawalId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read the decisions about a withdrawal. Every decision, oldest first: the request with all its
   * rules and the facts that they used, approvals, removal, cancellation, and what the signer or the
   * chain sent back. The service wrote each decision together with its effect, and decisions cannot
   * be changed.
   *
   * GET /withdrawals/{withdrawalId}/decisions. The client repeats the call if no answer comes.
   */
  listWithdrawalDecisions(withdrawalId: string, options: CallOptions = {}): Promise<Decisions> {
    return this.#connection.call<Decisions>({ method: "GET", path: `/withdrawals/${segment("withdrawalId", withdrawalId)}/decisions`, repeat: "ALWAYS" }, options);
  }

  /**
   * List withdrawals. The withdrawals of customers and of the organization itself, unless type
   * selects one of them. idempotencyKey selects the withdrawal with this key. With Accept: text/csv
   * the call returns everything that the filters select as one table, as of one moment, without
   * limit and cursor. If the table breaks off, the connection ends without the end of the answer. A
   * cell that a spreadsheet would read as a formula has an apostrophe in front of it.
   *
   * GET /withdrawals. The client repeats the call if no answer comes.
   */
  listWithdrawals(params: ListWithdrawalsParams = {}, options: CallOptions = {}): Promise<WithdrawalPage> {
    return this.#connection.call<WithdrawalPage>({ method: "GET", path: `/withdrawals`, repeat: "ALWAYS", query: { customerId: params.customerId, type: params.type, status: params.status, mintId: params.mintId, chain: params.chain, txHash: params.txHash, address: params.address, reference: params.reference, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listWithdrawals, over all pages. */
  withdrawals(params: ListWithdrawalsParams = {}, options: CallOptions = {}): AsyncGenerator<Withdrawal, void, undefined> {
    return each(params.cursor, (cursor) => this.listWithdrawals({ ...params, cursor }, options));
  }

  /**
   * What listWithdrawals has as one table, without limit and cursor. The table is read as it
   * arrives. A read error means that the table is not complete.
   */
  listWithdrawalsCSV(params: ListWithdrawalsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/withdrawals`, repeat: "ALWAYS", query: { customerId: params.customerId, type: params.type, status: params.status, mintId: params.mintId, chain: params.chain, txHash: params.txHash, address: params.address, reference: params.reference, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Ask what a withdrawal request would do. Takes the body of POST /withdraw, evaluates the same
   * rules on the same facts and moves nothing. The answer is what POST /withdraw would do now. A
   * request that POST /withdraw would refuse is refused here with the same status and code;
   * details.gates has the rules up to the one that refused. Where POST /withdraw would answer 451,
   * this call answers 200, wouldBe is BLOCKED and the rule RISK says BLOCK. The rule RISK is
   * NOT_CONFIGURED, and passes, while this installation has no risk provider and your organization
   * has no threshold. With a known idempotencyKey no withdrawal would be made: wouldBe is the status
   * of the withdrawal that has the key.
   *
   * POST /withdraw/preview. The client repeats the call if no answer comes.
   */
  previewWithdrawal(body: WithdrawRequest, options: CallOptions = {}): Promise<Preview> {
    return this.#connection.call<Preview>({ method: "POST", path: `/withdraw/preview`, repeat: "ALWAYS", body, key: body.idempotencyKey }, options);
  }

  /**
   * Move money between balances. Moves an amount between a customer and a product of yours, two
   * customers or two products: at once, without a chain. It creates an unknown customer who
   * receives. The idempotencyKey is required: the same key with the same parameters returns the same
   * transfer and moves nothing more. A key never expires. Every field except metadata is a
   * parameter, including reference: another value under a known key is refused with 409
   * IDEMPOTENCY_CONFLICT. A 4xx means that this request moved nothing. After a 5xx or no answer,
   * repeat with the same key.
   *
   * POST /transfers. The client repeats the call if no answer comes and it has an idempotencyKey;
   * without one it sends the call once.
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
   * Read your own balances. One row for each product and mint that had a movement. Customers'
   * balances are not yours: CUSTODIAL shows them as owedToCustomers, and no total includes them.
   * total is available + pending.
   *
   * GET /balances. The client repeats the call if no answer comes.
   */
  listBalances(options: CallOptions = {}): Promise<ProductBalances> {
    return this.#connection.call<ProductBalances>({ method: "GET", path: `/balances`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read the movements of balances. A statement: every movement of a customer's or product's
   * balance, with the resource that caused it. A transfer between two balances is two entries. A
   * withdrawal first moves its amount from AVAILABLE to PENDING_WITHDRAW, and then out. With Accept:
   * text/csv the call returns everything that the filters select as one table, as of one moment,
   * without limit and cursor. If the table breaks off, the connection ends without the end of the
   * answer. A cell that a spreadsheet would read as a formula has an apostrophe in front of it.
   *
   * GET /ledger/entries. The client repeats the call if no answer comes.
   */
  listLedgerEntries(params: ListLedgerEntriesParams = {}, options: CallOptions = {}): Promise<EntryPage> {
    return this.#connection.call<EntryPage>({ method: "GET", path: `/ledger/entries`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, mintId: params.mintId, chain: params.chain, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listLedgerEntries, over all pages. */
  ledgerEntries(params: ListLedgerEntriesParams = {}, options: CallOptions = {}): AsyncGenerator<Entry, void, undefined> {
    return each(params.cursor, (cursor) => this.listLedgerEntries({ ...params, cursor }, options));
  }

  /**
   * What listLedgerEntries has as one table, without limit and cursor. The table is read as it
   * arrives. A read error means that the table is not complete.
   */
  listLedgerEntriesCSV(params: ListLedgerEntriesParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/ledger/entries`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, mintId: params.mintId, chain: params.chain, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * List transfers. The organization's transfers. idempotencyKey selects the transfer with this key.
   * With Accept: text/csv the call returns everything that the filters select as one table, as of
   * one moment, without limit and cursor. If the table breaks off, the connection ends without the
   * end of the answer. A cell that a spreadsheet would read as a formula has an apostrophe in front
   * of it.
   *
   * GET /transfers. The client repeats the call if no answer comes.
   */
  listTransfers(params: ListTransfersParams = {}, options: CallOptions = {}): Promise<TransferPage> {
    return this.#connection.call<TransferPage>({ method: "GET", path: `/transfers`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, mintId: params.mintId, chain: params.chain, reference: params.reference, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listTransfers, over all pages. */
  transfers(params: ListTransfersParams = {}, options: CallOptions = {}): AsyncGenerator<Transfer, void, undefined> {
    return each(params.cursor, (cursor) => this.listTransfers({ ...params, cursor }, options));
  }

  /**
   * What listTransfers has as one table, without limit and cursor. The table is read as it arrives.
   * A read error means that the table is not complete.
   */
  listTransfersCSV(params: ListTransfersParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/transfers`, repeat: "ALWAYS", query: { customerId: params.customerId, product: params.product, mintId: params.mintId, chain: params.chain, reference: params.reference, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Swap a customer's balance. Holds the amount and swaps it through the provider with the best
   * offer. The delivery is credited to the same customer, and CUSTOMER_DEPOSIT announces it with
   * swap. A swap that fails later announces CUSTOMER_SWAP_FAILED instead; restore what comes back. A
   * known key returns its swap as it is now, whatever else the request has, also while swaps are
   * switched off: the header Idempotency-Parameters-Differ says if the parameters differ. Every
   * other 4xx means that there is no swap with this key; 401, 403 IP_NOT_ALLOWED and SCOPE_MISSING,
   * and 429 say nothing about earlier attempts. After a 5xx or no answer, repeat with the same key.
   *
   * POST /customer-swap. The client repeats the call if no answer comes and it has an
   * idempotencyKey; without one it sends the call once.
   */
  createCustomerSwap(body: SwapRequest, options: CallOptions = {}): Promise<CustomerSwap> {
    return this.#connection.call<CustomerSwap>({ method: "POST", path: `/customer-swap`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * Read a swap. One customer swap. The call works while swaps are switched off, and can be polled
   * instead of webhooks.
   *
   * GET /customer-swap/{swapId}. The client repeats the call if no answer comes.
   */
  getCustomerSwap(swapId: string, options: CallOptions = {}): Promise<CustomerSwap> {
    return this.#connection.call<CustomerSwap>({ method: "GET", path: `/customer-swap/${segment("swapId", swapId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List swaps. The organization's customer swaps. idempotencyKey selects the swap with this key.
   * With Accept: text/csv the call returns everything that the filters select as one table, as of
   * one moment, without limit and cursor. If the table breaks off, the connection ends without the
   * end of the answer. A cell that a spreadsheet would read as a formula has an apostrophe in front
   * of it.
   *
   * GET /customer-swaps. The client repeats the call if no answer comes.
   */
  listCustomerSwaps(params: ListCustomerSwapsParams = {}, options: CallOptions = {}): Promise<CustomerSwapPage> {
    return this.#connection.call<CustomerSwapPage>({ method: "GET", path: `/customer-swaps`, repeat: "ALWAYS", query: { customerId: params.customerId, status: params.status, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listCustomerSwaps, over all pages. */
  customerSwaps(params: ListCustomerSwapsParams = {}, options: CallOptions = {}): AsyncGenerator<CustomerSwap, void, undefined> {
    return each(params.cursor, (cursor) => this.listCustomerSwaps({ ...params, cursor }, options));
  }

  /**
   * What listCustomerSwaps has as one table, without limit and cursor. The table is read as it
   * arrives. A read error means that the table is not complete.
   */
  listCustomerSwapsCSV(params: ListCustomerSwapsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/customer-swaps`, repeat: "ALWAYS", query: { customerId: params.customerId, status: params.status, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * List the fees that you owe. One row for each completed swap and for each network fee. A fee of a
   * swap is due at the completion and never for a failed swap. No balance pays a fee: the operator
   * bills it, see GET /billing/invoices. With Accept: text/csv the call returns everything that the
   * filters select as one table, as of one moment, without limit and cursor. If the table breaks
   * off, the connection ends without the end of the answer. A cell that a spreadsheet would read as
   * a formula has an apostrophe in front of it.
   *
   * GET /billing/fees. The client repeats the call if no answer comes.
   */
  listFees(params: ListFeesParams = {}, options: CallOptions = {}): Promise<FeeLinePage> {
    return this.#connection.call<FeeLinePage>({ method: "GET", path: `/billing/fees`, repeat: "ALWAYS", query: { month: params.month, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listFees, over all pages. */
  fees(params: ListFeesParams = {}, options: CallOptions = {}): AsyncGenerator<FeeLine, void, undefined> {
    return each(params.cursor, (cursor) => this.listFees({ ...params, cursor }, options));
  }

  /**
   * What listFees has as one table, without limit and cursor. The table is read as it arrives. A
   * read error means that the table is not complete.
   */
  listFeesCSV(params: ListFeesParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/billing/fees`, repeat: "ALWAYS", query: { month: params.month, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Ask what a swap would bring. Asks the swap providers and returns the best offer. It stores
   * nothing and holds nothing, so a quote has no id: send minAmountOut with POST /customer-swap to
   * be safe from a worse offer. The balance of the customer is not looked at.
   *
   * POST /customer-swap/quote. The client repeats the call if no answer comes.
   */
  quoteCustomerSwap(body: SwapQuoteRequest, options: CallOptions = {}): Promise<SwapQuote> {
    return this.#connection.call<SwapQuote>({ method: "POST", path: `/customer-swap/quote`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Restore a failed swap. Moves what came back of a failed swap from inSwap to the available
   * balance of its customer. A repeated call moves what has come back since, and does nothing when
   * there is nothing more. It works while swaps are switched off and while the customer or the
   * organization is frozen. While nothing has come back it is refused with 409 REFUND_NOT_RECEIVED,
   * and POST /transfers can advance the amount from a balance of your own.
   *
   * POST /customer-swap/{swapId}/restore. The client repeats the call if no answer comes.
   */
  restoreCustomerSwap(swapId: string, options: CallOptions = {}): Promise<CustomerSwap> {
    return this.#connection.call<CustomerSwap>({ method: "POST", path: `/customer-swap/${segment("swapId", swapId)}/restore`, repeat: "ALWAYS" }, options);
  }

  /**
   * Let a customer pay in another token. Returns an address of a swap provider that the customer
   * pays until expiresAt. What arrives is swapped and credited in USDC, and CUSTOMER_DEPOSIT with
   * source DEPOSIT_SWAP and depositSwapId announces it, once for each deposit. The first call for a
   * customer creates the customer. With an idempotencyKey the same request returns the same deposit
   * swap as it is now, and the same key with other parameters is refused with 409
   * IDEMPOTENCY_CONFLICT; customerEmail is no parameter. A key never expires. Without a key every
   * call makes another address. Nothing of the customer's or of yours is held by this call, and no
   * refusal of it affects money. After a 5xx or no answer, repeat with the same key.
   *
   * POST /deposit-swap. The client repeats the call if no answer comes and it has an idempotencyKey;
   * without one it sends the call once.
   */
  createDepositSwap(body: DepositSwapRequest, options: CallOptions = {}): Promise<DepositSwap> {
    return this.#connection.call<DepositSwap>({ method: "POST", path: `/deposit-swap`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * Read a deposit swap. One deposit swap. Its status informs and credits nothing: credit your user
   * by the events of the deposits.
   *
   * GET /deposit-swap/{depositSwapId}. The client repeats the call if no answer comes.
   */
  getDepositSwap(depositSwapId: string, options: CallOptions = {}): Promise<DepositSwap> {
    return this.#connection.call<DepositSwap>({ method: "GET", path: `/deposit-swap/${segment("depositSwapId", depositSwapId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List the tokens of deposit swaps. What a customer can pay in, by chain and symbol: the tokens
   * that a healthy swap provider takes for the USDC that this service credits. The list changes with
   * the providers.
   *
   * GET /deposit-swap/tokens. The client repeats the call if no answer comes.
   */
  listDepositSwapTokens(params: ListDepositSwapTokensParams = {}, options: CallOptions = {}): Promise<DepositSwapTokens> {
    return this.#connection.call<DepositSwapTokens>({ method: "GET", path: `/deposit-swap/tokens`, repeat: "ALWAYS", query: { chain: params.chain, search: params.search } }, options);
  }

  /**
   * List deposit swaps. The organization's deposit swaps. idempotencyKey selects the deposit swap
   * with this key. With Accept: text/csv the call returns everything that the filters select as one
   * table, as of one moment, without limit and cursor. If the table breaks off, the connection ends
   * without the end of the answer. A cell that a spreadsheet would read as a formula has an
   * apostrophe in front of it.
   *
   * GET /deposit-swaps. The client repeats the call if no answer comes.
   */
  listDepositSwaps(params: ListDepositSwapsParams = {}, options: CallOptions = {}): Promise<DepositSwapPage> {
    return this.#connection.call<DepositSwapPage>({ method: "GET", path: `/deposit-swaps`, repeat: "ALWAYS", query: { customerId: params.customerId, status: params.status, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listDepositSwaps, over all pages. */
  depositSwaps(params: ListDepositSwapsParams = {}, options: CallOptions = {}): AsyncGenerator<DepositSwap, void, undefined> {
    return each(params.cursor, (cursor) => this.listDepositSwaps({ ...params, cursor }, options));
  }

  /**
   * What listDepositSwaps has as one table, without limit and cursor. The table is read as it
   * arrives. A read error means that the table is not complete.
   */
  listDepositSwapsCSV(params: ListDepositSwapsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/deposit-swaps`, repeat: "ALWAYS", query: { customerId: params.customerId, status: params.status, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Ask what a deposit swap would bring. Asks the swap providers and returns the best offer. It
   * stores nothing and binds no one: the amount that arrives is swapped at the price of its time.
   *
   * POST /deposit-swap/quote. The client repeats the call if no answer comes.
   */
  quoteDepositSwap(body: DepositSwapQuoteRequest, options: CallOptions = {}): Promise<DepositSwapQuote> {
    return this.#connection.call<DepositSwapQuote>({ method: "POST", path: `/deposit-swap/quote`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Swap your own money and pay it out. Holds the amount of the product, swaps it through the
   * provider with the best offer, and pays what arrived to the whitelisted address, as a withdrawal
   * of your organization. Above the threshold of your organization the swap is AWAITING_APPROVAL
   * until people approve it on the pages: their approvals cover the withdrawal, too, within the
   * terms of the swap and until payoutUntil. ORGANIZATION_SWAP_COMPLETED or ORGANIZATION_SWAP_FAILED
   * announces the end to endpoints that name it. What comes back of a failed swap is in the
   * product's balance again at once. A known key returns its swap as it is now, also while these
   * swaps are switched off; with other parameters it is refused with 409 IDEMPOTENCY_CONFLICT. Every
   * other 4xx means that there is no swap with this key; 401, 403 IP_NOT_ALLOWED and SCOPE_MISSING,
   * and 429 say nothing about earlier attempts. After a 5xx or no answer, repeat with the same key.
   *
   * POST /organization-swap. The client repeats the call if no answer comes and it has an
   * idempotencyKey; without one it sends the call once.
   */
  createOrganizationSwap(body: OrganizationSwapRequest, options: CallOptions = {}): Promise<OrganizationSwap> {
    return this.#connection.call<OrganizationSwap>({ method: "POST", path: `/organization-swap`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * Read a swap of your own money. One organization swap. The call works while these swaps are
   * switched off, and can be polled instead of webhooks.
   *
   * GET /organization-swap/{swapId}. The client repeats the call if no answer comes.
   */
  getOrganizationSwap(swapId: string, options: CallOptions = {}): Promise<OrganizationSwap> {
    return this.#connection.call<OrganizationSwap>({ method: "GET", path: `/organization-swap/${segment("swapId", swapId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List swaps of your own money. The organization's own swaps. idempotencyKey selects the swap with
   * this key. With Accept: text/csv the call returns everything that the filters select as one
   * table, as of one moment, without limit and cursor. If the table breaks off, the connection ends
   * without the end of the answer. A cell that a spreadsheet would read as a formula has an
   * apostrophe in front of it.
   *
   * GET /organization-swaps. The client repeats the call if no answer comes.
   */
  listOrganizationSwaps(params: ListOrganizationSwapsParams = {}, options: CallOptions = {}): Promise<OrganizationSwapPage> {
    return this.#connection.call<OrganizationSwapPage>({ method: "GET", path: `/organization-swaps`, repeat: "ALWAYS", query: { product: params.product, status: params.status, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listOrganizationSwaps, over all pages. */
  organizationSwaps(params: ListOrganizationSwapsParams = {}, options: CallOptions = {}): AsyncGenerator<OrganizationSwap, void, undefined> {
    return each(params.cursor, (cursor) => this.listOrganizationSwaps({ ...params, cursor }, options));
  }

  /**
   * What listOrganizationSwaps has as one table, without limit and cursor. The table is read as it
   * arrives. A read error means that the table is not complete.
   */
  listOrganizationSwapsCSV(params: ListOrganizationSwapsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/organization-swaps`, repeat: "ALWAYS", query: { product: params.product, status: params.status, idempotencyKey: params.idempotencyKey, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * List your whitelist. The addresses to which your organization's own money may be paid, including
   * removed ones. Only the operator of this service adds and removes them.
   *
   * GET /whitelisted-addresses. The client repeats the call if no answer comes.
   */
  listWhitelistedAddresses(params: ListWhitelistedAddressesParams = {}, options: CallOptions = {}): Promise<WhitelistedAddressPage> {
    return this.#connection.call<WhitelistedAddressPage>({ method: "GET", path: `/whitelisted-addresses`, repeat: "ALWAYS", query: { order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listWhitelistedAddresses, over all pages. */
  whitelistedAddresses(params: ListWhitelistedAddressesParams = {}, options: CallOptions = {}): AsyncGenerator<WhitelistedAddress, void, undefined> {
    return each(params.cursor, (cursor) => this.listWhitelistedAddresses({ ...params, cursor }, options));
  }

  /**
   * Ask what a swap of your own money would bring. Asks the swap providers and returns the best
   * offer. It stores nothing and holds nothing: send minAmountOut with POST /organization-swap to be
   * safe from a worse offer. No balance is looked at.
   *
   * POST /organization-swap/quote. The client repeats the call if no answer comes.
   */
  quoteOrganizationSwap(body: OrganizationSwapQuoteRequest, options: CallOptions = {}): Promise<SwapQuote> {
    return this.#connection.call<SwapQuote>({ method: "POST", path: `/organization-swap/quote`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Archive a product. Takes the product off sale. It is not deleted: it is read and changed as
   * before. An archived product stays as it is. Checkouts that exist are not affected.
   *
   * DELETE /products/{productId}. The client repeats the call if no answer comes.
   */
  archiveProduct(productId: string, options: CallOptions = {}): Promise<Product> {
    return this.#connection.call<Product>({ method: "DELETE", path: `/products/${segment("productId", productId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * Make a product. Makes a product that is for sale. It makes no link to a checkout, moves no money
   * and sends no event. An imageUrl is fetched once by this call. With an idempotencyKey the same
   * request returns the same product as it is now, and the same key with other parameters is refused
   * with 409 IDEMPOTENCY_CONFLICT; metadata is no parameter. A key never expires. Without a key
   * every call makes another product. After a 5xx or no answer, repeat with the same key.
   *
   * POST /products. The client repeats the call if no answer comes and it has an idempotencyKey;
   * without one it sends the call once.
   */
  createProduct(body: ProductRequest, options: CallOptions = {}): Promise<Product> {
    return this.#connection.call<Product>({ method: "POST", path: `/products`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * Read a product. One product.
   *
   * GET /products/{productId}. The client repeats the call if no answer comes.
   */
  getProduct(productId: string, options: CallOptions = {}): Promise<Product> {
    return this.#connection.call<Product>({ method: "GET", path: `/products/${segment("productId", productId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List products. The organization's products, archived ones included. With Accept: text/csv the
   * call returns everything that the filters select as one table, as of one moment, without limit
   * and cursor. If the table breaks off, the connection ends without the end of the answer. A cell
   * that a spreadsheet would read as a formula has an apostrophe in front of it.
   *
   * GET /products. The client repeats the call if no answer comes.
   */
  listProducts(params: ListProductsParams = {}, options: CallOptions = {}): Promise<ProductPage> {
    return this.#connection.call<ProductPage>({ method: "GET", path: `/products`, repeat: "ALWAYS", query: { status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listProducts, over all pages. */
  products(params: ListProductsParams = {}, options: CallOptions = {}): AsyncGenerator<Product, void, undefined> {
    return each(params.cursor, (cursor) => this.listProducts({ ...params, cursor }, options));
  }

  /**
   * What listProducts has as one table, without limit and cursor. The table is read as it arrives. A
   * read error means that the table is not complete.
   */
  listProductsCSV(params: ListProductsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/products`, repeat: "ALWAYS", query: { status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Put an archived product on sale again. Makes the product ACTIVE. An active product stays as it
   * is. Checkouts that exist are not affected, and no event is sent.
   *
   * POST /products/{productId}/unarchive. The client repeats the call if no answer comes.
   */
  unarchiveProduct(productId: string, options: CallOptions = {}): Promise<Product> {
    return this.#connection.call<Product>({ method: "POST", path: `/products/${segment("productId", productId)}/unarchive`, repeat: "ALWAYS" }, options);
  }

  /**
   * Change a product. Replaces the fields that the body names, of an active or an archived product.
   * null removes a description, an image, a settlement mint or a URL, and the prices that the other
   * priceType has no use for. The result is checked as a whole: to make a FIXED product OPEN, send
   * priceType, price null, minPrice and maxPrice together. Checkouts that exist keep what they were
   * made of.
   *
   * PATCH /products/{productId}. The client repeats the call if no answer comes.
   */
  updateProduct(productId: string, body: ProductChange, options: CallOptions = {}): Promise<Product> {
    return this.#connection.call<Product>({ method: "PATCH", path: `/products/${segment("productId", productId)}`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Make a payment link. Makes a public page that sells products: everyone who has its address buys
   * there, and each purchase is a checkout with linkId. Its poster is at url followed by
   * /poster.svg. It makes no checkout by itself, moves no money and sends no event. With an
   * idempotencyKey the same request returns the same payment link as it is now, and the same key
   * with other parameters is refused with 409 IDEMPOTENCY_CONFLICT. A key never expires. Without a
   * key every call makes another one. After a 5xx or no answer, repeat with the same key.
   *
   * POST /payment-links. The client repeats the call if no answer comes and it has an
   * idempotencyKey; without one it sends the call once.
   */
  createPaymentLink(body: LinkRequest, options: CallOptions = {}): Promise<PaymentLink> {
    return this.#connection.call<PaymentLink>({ method: "POST", path: `/payment-links`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * End a payment link. It sells nothing, for good: no call makes it active again, and no other
   * payment link gets its address. An ended one stays as it is. Checkouts that exist are not
   * affected.
   *
   * POST /payment-links/{linkId}/end. The client repeats the call if no answer comes.
   */
  endPaymentLink(linkId: string, options: CallOptions = {}): Promise<PaymentLink> {
    return this.#connection.call<PaymentLink>({ method: "POST", path: `/payment-links/${segment("linkId", linkId)}/end`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read a payment link. One payment link, with the number of its sales.
   *
   * GET /payment-links/{linkId}. The client repeats the call if no answer comes.
   */
  getPaymentLink(linkId: string, options: CallOptions = {}): Promise<PaymentLink> {
    return this.#connection.call<PaymentLink>({ method: "GET", path: `/payment-links/${segment("linkId", linkId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List payment links. The organization's payment links, ended ones included. With Accept: text/csv
   * the call returns everything that the filters select as one table, as of one moment, without
   * limit and cursor. If the table breaks off, the connection ends without the end of the answer. A
   * cell that a spreadsheet would read as a formula has an apostrophe in front of it.
   *
   * GET /payment-links. The client repeats the call if no answer comes.
   */
  listPaymentLinks(params: ListPaymentLinksParams = {}, options: CallOptions = {}): Promise<PaymentLinkPage> {
    return this.#connection.call<PaymentLinkPage>({ method: "GET", path: `/payment-links`, repeat: "ALWAYS", query: { status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listPaymentLinks, over all pages. */
  paymentLinks(params: ListPaymentLinksParams = {}, options: CallOptions = {}): AsyncGenerator<PaymentLink, void, undefined> {
    return each(params.cursor, (cursor) => this.listPaymentLinks({ ...params, cursor }, options));
  }

  /**
   * What listPaymentLinks has as one table, without limit and cursor. The table is read as it
   * arrives. A read error means that the table is not complete.
   */
  listPaymentLinksCSV(params: ListPaymentLinksParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/payment-links`, repeat: "ALWAYS", query: { status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Pause a payment link. It sells nothing until it is resumed. A paused one stays as it is.
   * Checkouts that exist are not affected.
   *
   * POST /payment-links/{linkId}/pause. The client repeats the call if no answer comes.
   */
  pausePaymentLink(linkId: string, options: CallOptions = {}): Promise<PaymentLink> {
    return this.#connection.call<PaymentLink>({ method: "POST", path: `/payment-links/${segment("linkId", linkId)}/pause`, repeat: "ALWAYS" }, options);
  }

  /**
   * Resume a payment link. It sells again. An active one stays as it is.
   *
   * POST /payment-links/{linkId}/resume. The client repeats the call if no answer comes.
   */
  resumePaymentLink(linkId: string, options: CallOptions = {}): Promise<PaymentLink> {
    return this.#connection.call<PaymentLink>({ method: "POST", path: `/payment-links/${segment("linkId", linkId)}/resume`, repeat: "ALWAYS" }, options);
  }

  /**
   * Change a payment link. Replaces the fields that the body names, unless the payment link is
   * ended. null removes them. Its address and what it sells never change. Checkouts that exist keep
   * their terms.
   *
   * PATCH /payment-links/{linkId}. The client repeats the call if no answer comes.
   */
  updatePaymentLink(linkId: string, body: LinkChange, options: CallOptions = {}): Promise<PaymentLink> {
    return this.#connection.call<PaymentLink>({ method: "PATCH", path: `/payment-links/${segment("linkId", linkId)}`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Accept what was paid. Completes a checkout with what is credited: it is enough, in time and in
   * the right coin by your decision. Something has to be credited, and nothing flagged. It moves no
   * money and sends CHECKOUT_COMPLETED. A completed checkout stays as it is.
   *
   * POST /checkouts/{checkoutId}/accept. The client repeats the call if no answer comes.
   */
  acceptCheckout(checkoutId: string, body: AcceptRequest, options: CallOptions = {}): Promise<Checkout> {
    return this.#connection.call<Checkout>({ method: "POST", path: `/checkouts/${segment("checkoutId", checkoutId)}/accept`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Assign an unmatched payment. Makes it a payment of a checkout, by your decision. It counts there
   * by its own moment and its own rate, as every payment does, and may complete the checkout, be
   * late, or be too much. The checkout may be in any status. It moves no money. A payment never goes
   * from one checkout to another; the same checkout again changes nothing.
   *
   * POST /unmatched-payments/{depositId}/assign. The client repeats the call if no answer comes.
   */
  assignUnmatchedPayment(depositId: string, body: AssignRequest, options: CallOptions = {}): Promise<UnmatchedPayment> {
    return this.#connection.call<UnmatchedPayment>({ method: "POST", path: `/unmatched-payments/${segment("depositId", depositId)}/assign`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Cancel a checkout. Ends an OPEN checkout for which no payment was seen. A cancelled one stays as
   * it is. What arrives later is credited to your product CHECKOUT and counts as late, and only a
   * person accepts it.
   *
   * POST /checkouts/{checkoutId}/cancel. The client repeats the call if no answer comes.
   */
  cancelCheckout(checkoutId: string, options: CallOptions = {}): Promise<Checkout> {
    return this.#connection.call<Checkout>({ method: "POST", path: `/checkouts/${segment("checkoutId", checkoutId)}/cancel`, repeat: "ALWAYS" }, options);
  }

  /**
   * Make a checkout. Makes a checkout of lineItems, of one productId, or of a name with a price. It
   * keeps the names, prices and terms of the moment, moves no money and sends no event. Lead the
   * payer to url, or open an option and show its address yourself. With an idempotencyKey the same
   * request returns the same checkout as it is now, and the same key with other parameters is
   * refused with 409 IDEMPOTENCY_CONFLICT; customerEmail and metadata are no parameters. A key never
   * expires. Without a key every call makes another checkout. After a 5xx or no answer, repeat with
   * the same key: that also opens what openMintIds names and the first call did not open.
   *
   * POST /checkouts. The client repeats the call if no answer comes and it has an idempotencyKey;
   * without one it sends the call once.
   */
  createCheckout(body: CheckoutRequest, options: CallOptions = {}): Promise<Checkout> {
    return this.#connection.call<Checkout>({ method: "POST", path: `/checkouts`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * Read a checkout. One checkout with its opened options, its payments and its newest refund. While
   * it is OPEN, an opened option whose rate is over, or is for another amount, gets a new one.
   *
   * GET /checkouts/{checkoutId}. The client repeats the call if no answer comes.
   */
  getCheckout(checkoutId: string, options: CallOptions = {}): Promise<Checkout> {
    return this.#connection.call<Checkout>({ method: "GET", path: `/checkouts/${segment("checkoutId", checkoutId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read the receipt of a checkout. The receipt of a completed checkout: what was sold, what was
   * paid for it, and in which transactions, signed with the key of webhooks. It names neither the
   * customer nor the reference. The payer has the same file on the page. webhook.VerifyReceipt and
   * coffer receipt verify check it without a call.
   *
   * GET /checkouts/{checkoutId}/receipt. The client repeats the call if no answer comes.
   */
  getCheckoutReceipt(checkoutId: string, options: CallOptions = {}): Promise<ReceiptFile> {
    return this.#connection.call<ReceiptFile>({ method: "GET", path: `/checkouts/${segment("checkoutId", checkoutId)}/receipt`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read an unmatched payment. One payment that named no checkout, also once it is assigned.
   *
   * GET /unmatched-payments/{depositId}. The client repeats the call if no answer comes.
   */
  getUnmatchedPayment(depositId: string, options: CallOptions = {}): Promise<UnmatchedPayment> {
    return this.#connection.call<UnmatchedPayment>({ method: "GET", path: `/unmatched-payments/${segment("depositId", depositId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List checkouts. The organization's checkouts. exception=UNDERPAID and the other exceptions list
   * those that a person may have to look at. The table has no options, no payments and no refund.
   * With Accept: text/csv the call returns everything that the filters select as one table, as of
   * one moment, without limit and cursor. If the table breaks off, the connection ends without the
   * end of the answer. A cell that a spreadsheet would read as a formula has an apostrophe in front
   * of it.
   *
   * GET /checkouts. The client repeats the call if no answer comes.
   */
  listCheckouts(params: ListCheckoutsParams = {}, options: CallOptions = {}): Promise<CheckoutPage> {
    return this.#connection.call<CheckoutPage>({ method: "GET", path: `/checkouts`, repeat: "ALWAYS", query: { status: params.status, exception: params.exception, customerId: params.customerId, reference: params.reference, linkId: params.linkId, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listCheckouts, over all pages. */
  checkouts(params: ListCheckoutsParams = {}, options: CallOptions = {}): AsyncGenerator<Checkout, void, undefined> {
    return each(params.cursor, (cursor) => this.listCheckouts({ ...params, cursor }, options));
  }

  /**
   * What listCheckouts has as one table, without limit and cursor. The table is read as it arrives.
   * A read error means that the table is not complete.
   */
  listCheckoutsCSV(params: ListCheckoutsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/checkouts`, repeat: "ALWAYS", query: { status: params.status, exception: params.exception, customerId: params.customerId, reference: params.reference, linkId: params.linkId, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * List unmatched payments. What arrived for your checkouts and belongs to none of them. It is
   * credited to your product CHECKOUT all the same. An assigned one is a payment of its checkout and
   * in this list no more. The table has no suggestions. With Accept: text/csv the call returns
   * everything that the filters select as one table, as of one moment, without limit and cursor. If
   * the table breaks off, the connection ends without the end of the answer. A cell that a
   * spreadsheet would read as a formula has an apostrophe in front of it.
   *
   * GET /unmatched-payments. The client repeats the call if no answer comes.
   */
  listUnmatchedPayments(params: ListUnmatchedPaymentsParams = {}, options: CallOptions = {}): Promise<UnmatchedPaymentPage> {
    return this.#connection.call<UnmatchedPaymentPage>({ method: "GET", path: `/unmatched-payments`, repeat: "ALWAYS", query: { createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listUnmatchedPayments, over all pages. */
  unmatchedPayments(params: ListUnmatchedPaymentsParams = {}, options: CallOptions = {}): AsyncGenerator<UnmatchedPayment, void, undefined> {
    return each(params.cursor, (cursor) => this.listUnmatchedPayments({ ...params, cursor }, options));
  }

  /**
   * What listUnmatchedPayments has as one table, without limit and cursor. The table is read as it
   * arrives. A read error means that the table is not complete.
   */
  listUnmatchedPaymentsCSV(params: ListUnmatchedPaymentsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/unmatched-payments`, repeat: "ALWAYS", query: { createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Open an option of a checkout. Issues the address of this checkout for an accepted mint and
   * quotes the amount. The address belongs to this checkout permanently; the EVM chains share one.
   * An opened option keeps its address, and its rate is renewed if it is over. A shop that shows the
   * address itself checks addressProof first.
   *
   * POST /checkouts/{checkoutId}/options. The client repeats the call if no answer comes.
   */
  openCheckoutOption(checkoutId: string, body: OptionRequest, options: CallOptions = {}): Promise<PaymentOption> {
    return this.#connection.call<PaymentOption>({ method: "POST", path: `/checkouts/${segment("checkoutId", checkoutId)}/options`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Cancel a refund. Takes a refund back before a withdrawal pays it. Its amount is in the balance
   * of your product CHECKOUT again, and its claimUrl is worth nothing. A cancelled one stays as it
   * is. 409 INVALID_STATE says what became of the money of any other.
   *
   * POST /refunds/{refundId}/cancel. The client repeats the call if no answer comes.
   */
  cancelRefund(refundId: string, options: CallOptions = {}): Promise<Refund> {
    return this.#connection.call<Refund>({ method: "POST", path: `/refunds/${segment("refundId", refundId)}/cancel`, repeat: "ALWAYS" }, options);
  }

  /**
   * Refund a checkout. Gives back what was credited for a checkout, in the coin and on the network
   * of the payment. The amount leaves the balance of your product CHECKOUT at once and is owed to
   * the payer. With toAddress it is paid there, with the checks and approvals of your own
   * withdrawals but without the whitelist. Without it the answer has claimUrl once: the payer says
   * there where it goes, within 30 days. An address that cannot be paid brings the refund back to
   * AWAITING_ADDRESS, and problem says why. CHECKOUT_REFUNDED announces the paid refund to endpoints
   * that name it. With an idempotencyKey the same request returns the same refund as it is now,
   * without claimUrl, and the same key with other parameters is refused with 409
   * IDEMPOTENCY_CONFLICT; reason is no parameter. A key never expires. Without a key every call
   * makes another refund. A 4xx means that this request held and sent nothing. After a 5xx or no
   * answer, repeat with the same key, and get a new claimUrl from POST
   * /refunds/{refundId}/claim-key.
   *
   * POST /checkouts/{checkoutId}/refunds. The client repeats the call if no answer comes and it has
   * an idempotencyKey; without one it sends the call once.
   */
  createRefund(checkoutId: string, body: RefundRequest, options: CallOptions = {}): Promise<Refund> {
    return this.#connection.call<Refund>({ method: "POST", path: `/checkouts/${segment("checkoutId", checkoutId)}/refunds`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * Read a refund. One refund of a checkout. claimUrl is null: the service does not know the key of
   * it.
   *
   * GET /refunds/{refundId}. The client repeats the call if no answer comes.
   */
  getRefund(refundId: string, options: CallOptions = {}): Promise<Refund> {
    return this.#connection.call<Refund>({ method: "GET", path: `/refunds/${segment("refundId", refundId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List refunds. The organization's refunds of checkouts. The table has no parts. With Accept:
   * text/csv the call returns everything that the filters select as one table, as of one moment,
   * without limit and cursor. If the table breaks off, the connection ends without the end of the
   * answer. A cell that a spreadsheet would read as a formula has an apostrophe in front of it.
   *
   * GET /refunds. The client repeats the call if no answer comes.
   */
  listRefunds(params: ListRefundsParams = {}, options: CallOptions = {}): Promise<RefundPage> {
    return this.#connection.call<RefundPage>({ method: "GET", path: `/refunds`, repeat: "ALWAYS", query: { checkoutId: params.checkoutId, status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listRefunds, over all pages. */
  refunds(params: ListRefundsParams = {}, options: CallOptions = {}): AsyncGenerator<Refund, void, undefined> {
    return each(params.cursor, (cursor) => this.listRefunds({ ...params, cursor }, options));
  }

  /**
   * What listRefunds has as one table, without limit and cursor. The table is read as it arrives. A
   * read error means that the table is not complete.
   */
  listRefundsCSV(params: ListRefundsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/refunds`, repeat: "ALWAYS", query: { checkoutId: params.checkoutId, status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Refund an unmatched payment. Gives back a credited payment that named no checkout, as a whole,
   * in the coin and on the network of the payment. It gets a checkout of its own, which is CANCELLED
   * and has metadata.unmatchedDepositId, and the refund is one of this checkout in everything. With
   * toAddress it is paid there, with the checks and approvals of your own withdrawals but without
   * the whitelist. Without it the answer has claimUrl once. With an idempotencyKey the same request
   * returns the same refund as it is now, without claimUrl, and the same key with other parameters
   * is refused with 409 IDEMPOTENCY_CONFLICT; reason is no parameter. A key never expires. A 4xx
   * means that this request held and sent nothing; after 422 INSUFFICIENT_BALANCE the payment has
   * its checkout, and the same request goes on. After a 5xx or no answer, repeat with the same key,
   * and get a new claimUrl from POST /refunds/{refundId}/claim-key.
   *
   * POST /unmatched-payments/{depositId}/refund. The client repeats the call if no answer comes and
   * it has an idempotencyKey; without one it sends the call once.
   */
  refundUnmatchedPayment(depositId: string, body: UnmatchedRefundRequest, options: CallOptions = {}): Promise<Refund> {
    return this.#connection.call<Refund>({ method: "POST", path: `/unmatched-payments/${segment("depositId", depositId)}/refund`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * Give a refund a new claim key. Makes a new claimUrl for a refund that is AWAITING_ADDRESS, and
   * makes the one before worthless. Only this answer has it. If the answer is lost, call again.
   *
   * POST /refunds/{refundId}/claim-key. The client sends the call once.
   */
  replaceClaimKey(refundId: string, options: CallOptions = {}): Promise<Refund> {
    return this.#connection.call<Refund>({ method: "POST", path: `/refunds/${segment("refundId", refundId)}/claim-key`, repeat: "NEVER" }, options);
  }

  /**
   * Cancel a batch payout. Takes a batch back. Before its approval its sum is in the balance of
   * BATCH_PAYOUT again. While its rows are being paid, it stays PROCESSING with stoppedAt: the
   * service takes back what has no transaction yet and returns those amounts, and the batch ends
   * with the others. A cancelled one stays as it is.
   *
   * POST /batch-payouts/{batchPayoutId}/cancel. The client repeats the call if no answer comes.
   */
  cancelBatchPayout(batchPayoutId: string, options: CallOptions = {}): Promise<BatchPayout> {
    return this.#connection.call<BatchPayout>({ method: "POST", path: `/batch-payouts/${segment("batchPayoutId", batchPayoutId)}/cancel`, repeat: "ALWAYS" }, options);
  }

  /**
   * Make a batch payout. Makes a draft of a list of payments out of the balance of your product
   * BATCH_PAYOUT. Nothing is held and nothing is paid before its submission. The list is JSON, or
   * CSV with Content-Type: text/csv, whose first line names the columns reference, customerId,
   * mintId, toAddress, memo and amount, in any order, of which mintId, toAddress and amount are
   * needed; commas, semicolons or tabs separate them. A list of CSV has mode and useDecimal in the
   * query and its key in the header Idempotency-Key. A list has at most 5,000 rows and 2,000,000
   * bytes. problems names everything that is wrong with a row, in one answer; nothing is guessed.
   * STRICT refuses to be submitted with such a row, and PARTIAL leaves it out. Correct the list and
   * send it as a new batch: a draft never changes. With an idempotencyKey the same list returns the
   * same batch as it is now, and the same key with another one is refused with 409
   * IDEMPOTENCY_CONFLICT. A key never expires. Without a key every call makes another draft. A 4xx
   * means that this request made none.
   *
   * POST /batch-payouts. The client repeats the call if no answer comes and it has an
   * idempotencyKey; without one it sends the call once.
   */
  createBatchPayout(body: BatchPayoutRequest, params: CreateBatchPayoutParams = {}, options: CallOptions = {}): Promise<BatchPayoutReport> {
    return this.#connection.call<BatchPayoutReport>({ method: "POST", path: `/batch-payouts`, repeat: "WITH_KEY", body, key: body.idempotencyKey, query: { mode: params.mode, useDecimal: params.useDecimal } }, options);
  }

  /**
   * Read a batch payout. One batch payout, with the problems of its rows and the warnings about
   * them. Ask again to follow one that is being paid: counts says how far it is.
   *
   * GET /batch-payouts/{batchPayoutId}. The client repeats the call if no answer comes.
   */
  getBatchPayout(batchPayoutId: string, options: CallOptions = {}): Promise<BatchPayoutReport> {
    return this.#connection.call<BatchPayoutReport>({ method: "GET", path: `/batch-payouts/${segment("batchPayoutId", batchPayoutId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * Prove a row of a batch payout. Proves that people approved a row, for its payee: who has the
   * proof computes the leaf of the row, with path the root, and with the header the contentHash,
   * without asking the service. It says nothing about any other row.
   *
   * GET /batch-payouts/{batchPayoutId}/items/{row}/proof. The client repeats the call if no answer
   * comes.
   */
  getBatchPayoutProof(batchPayoutId: string, row: string, options: CallOptions = {}): Promise<BatchPayoutProof> {
    return this.#connection.call<BatchPayoutProof>({ method: "GET", path: `/batch-payouts/${segment("batchPayoutId", batchPayoutId)}/items/${segment("row", row)}/proof`, repeat: "ALWAYS" }, options);
  }

  /**
   * List the rows of a batch payout. The rows of a batch payout in the order of the list, with what
   * became of each. With .csv behind the path, the call returns all of them as a table: the columns
   * of the list in its order, and the results behind them.
   *
   * GET /batch-payouts/{batchPayoutId}/items. The client repeats the call if no answer comes.
   */
  listBatchPayoutItems(batchPayoutId: string, params: ListBatchPayoutItemsParams = {}, options: CallOptions = {}): Promise<BatchPayoutItemPage> {
    return this.#connection.call<BatchPayoutItemPage>({ method: "GET", path: `/batch-payouts/${segment("batchPayoutId", batchPayoutId)}/items`, repeat: "ALWAYS", query: { status: params.status, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listBatchPayoutItems, over all pages. */
  batchPayoutItems(batchPayoutId: string, params: ListBatchPayoutItemsParams = {}, options: CallOptions = {}): AsyncGenerator<BatchPayoutItem, void, undefined> {
    return each(params.cursor, (cursor) => this.listBatchPayoutItems(batchPayoutId, { ...params, cursor }, options));
  }

  /**
   * List batch payouts. The organization's batch payouts, without their rows. The table has no
   * totals; items.csv has the rows of one. With Accept: text/csv the call returns everything that
   * the filters select as one table, as of one moment, without limit and cursor. If the table breaks
   * off, the connection ends without the end of the answer. A cell that a spreadsheet would read as
   * a formula has an apostrophe in front of it.
   *
   * GET /batch-payouts. The client repeats the call if no answer comes.
   */
  listBatchPayouts(params: ListBatchPayoutsParams = {}, options: CallOptions = {}): Promise<BatchPayoutPage> {
    return this.#connection.call<BatchPayoutPage>({ method: "GET", path: `/batch-payouts`, repeat: "ALWAYS", query: { status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listBatchPayouts, over all pages. */
  batchPayouts(params: ListBatchPayoutsParams = {}, options: CallOptions = {}): AsyncGenerator<BatchPayout, void, undefined> {
    return each(params.cursor, (cursor) => this.listBatchPayouts({ ...params, cursor }, options));
  }

  /**
   * What listBatchPayouts has as one table, without limit and cursor. The table is read as it
   * arrives. A read error means that the table is not complete.
   */
  listBatchPayoutsCSV(params: ListBatchPayoutsParams = {}, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#connection.stream({ method: "GET", path: `/batch-payouts`, repeat: "ALWAYS", query: { status: params.status, createdAfter: params.createdAfter, createdBefore: params.createdBefore, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /**
   * Pause a batch payout. Stops the payment of further rows: none gets a payment, and no payment
   * without a transaction gets one. What is on its way to the chain goes on. A paused batch stays as
   * it is.
   *
   * POST /batch-payouts/{batchPayoutId}/pause. The client repeats the call if no answer comes.
   */
  pauseBatchPayout(batchPayoutId: string, options: CallOptions = {}): Promise<BatchPayout> {
    return this.#connection.call<BatchPayout>({ method: "POST", path: `/batch-payouts/${segment("batchPayoutId", batchPayoutId)}/pause`, repeat: "ALWAYS" }, options);
  }

  /**
   * Resume a batch payout. Goes on with the payment of a paused batch. One that is not paused stays
   * as it is.
   *
   * POST /batch-payouts/{batchPayoutId}/resume. The client repeats the call if no answer comes.
   */
  resumeBatchPayout(batchPayoutId: string, options: CallOptions = {}): Promise<BatchPayout> {
    return this.#connection.call<BatchPayout>({ method: "POST", path: `/batch-payouts/${segment("batchPayoutId", batchPayoutId)}/resume`, repeat: "ALWAYS" }, options);
  }

  /**
   * Make a batch payout of unpaid rows. Makes a draft of the rows of an ended batch that were not
   * paid, with approvals of its own: nothing is paid again under the old one. retryOf names the
   * ended batch. With an idempotencyKey the same call returns the same draft.
   *
   * POST /batch-payouts/{batchPayoutId}/retry. The client repeats the call if no answer comes and it
   * has an idempotencyKey; without one it sends the call once.
   */
  retryBatchPayout(batchPayoutId: string, body: BatchPayoutRetry = {}, options: CallOptions = {}): Promise<BatchPayout> {
    return this.#connection.call<BatchPayout>({ method: "POST", path: `/batch-payouts/${segment("batchPayoutId", batchPayoutId)}/retry`, repeat: "WITH_KEY", body, key: body.idempotencyKey }, options);
  }

  /**
   * Submit a batch payout. Submits a draft with the contentHash that you saw. Its whole sum leaves
   * the balance of your product BATCH_PAYOUT and is held, or nothing is held and 422
   * INSUFFICIENT_BALANCE has in details.shortfall what is missing of each mint. Then the service
   * checks and screens each row, and the batch waits for the approval of people, never of its maker.
   * A batch that was submitted before is returned as it is. 409 APPROVAL_REFUSED: contentHash is not
   * that of the batch. 409 DUPLICATE_BATCH: the same list was submitted before, as existingId. Name
   * it in acknowledgeDuplicateOf if it is meant to be paid once more.
   *
   * POST /batch-payouts/{batchPayoutId}/submit. The client repeats the call if no answer comes.
   */
  submitBatchPayout(batchPayoutId: string, body: BatchPayoutSubmission, options: CallOptions = {}): Promise<BatchPayout> {
    return this.#connection.call<BatchPayout>({ method: "POST", path: `/batch-payouts/${segment("batchPayoutId", batchPayoutId)}/submit`, repeat: "ALWAYS", body }, options);
  }

  /**
   * Read what the next invoice would have. The fees of the current month, and of months before that
   * no invoice has, with their provisional sum. GET /billing/fees?month= lists them.
   *
   * GET /billing/current. The client repeats the call if no answer comes.
   */
  getCurrentBill(options: CallOptions = {}): Promise<CurrentBill> {
    return this.#connection.call<CurrentBill>({ method: "GET", path: `/billing/current`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read an invoice. One invoice. With .pdf, .html or .csv behind the invoiceId, the call returns
   * the document as that file: the first two print it, and the table has every fee with its
   * transaction, price and time. A file always has the same bytes.
   *
   * GET /billing/invoices/{invoiceId}. The client repeats the call if no answer comes.
   */
  getInvoice(invoiceId: string, options: CallOptions = {}): Promise<Invoice> {
    return this.#connection.call<Invoice>({ method: "GET", path: `/billing/invoices/${segment("invoiceId", invoiceId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List your credit notes. The credit notes of the organization. Each gives back a part of one
   * invoice.
   *
   * GET /billing/credit-notes. The client repeats the call if no answer comes.
   */
  listCreditNotes(params: ListCreditNotesParams = {}, options: CallOptions = {}): Promise<CreditNotePage> {
    return this.#connection.call<CreditNotePage>({ method: "GET", path: `/billing/credit-notes`, repeat: "ALWAYS", query: { invoiceId: params.invoiceId, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listCreditNotes, over all pages. */
  creditNotes(params: ListCreditNotesParams = {}, options: CallOptions = {}): AsyncGenerator<CreditNote, void, undefined> {
    return each(params.cursor, (cursor) => this.listCreditNotes({ ...params, cursor }, options));
  }

  /**
   * List your invoices. The invoices of the organization, one for each month with at least a cent of
   * fees.
   *
   * GET /billing/invoices. The client repeats the call if no answer comes.
   */
  listInvoices(params: ListInvoicesParams = {}, options: CallOptions = {}): Promise<InvoicePage> {
    return this.#connection.call<InvoicePage>({ method: "GET", path: `/billing/invoices`, repeat: "ALWAYS", query: { status: params.status, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listInvoices, over all pages. */
  invoices(params: ListInvoicesParams = {}, options: CallOptions = {}): AsyncGenerator<Invoice, void, undefined> {
    return each(params.cursor, (cursor) => this.listInvoices({ ...params, cursor }, options));
  }

  /**
   * Make an additional API key. Makes a key in addition to the main key. Only this answer shows its
   * value. The call is available once the operator of this service switches additionalApiKeys on for
   * your organization. A READ key reads; a NO_MONEY_OUT key also makes changes that send no money
   * out; a FULL key makes every call except those about API keys. An organization can have 20 keys
   * that have not expired. If the answer is lost, GET /api-keys shows the key: delete or roll it.
   *
   * POST /api-keys. The client sends the call once.
   */
  createApiKey(body: ScopedKeyRequest, options: CallOptions = {}): Promise<ScopedKeyWithValue> {
    return this.#connection.call<ScopedKeyWithValue>({ method: "POST", path: `/api-keys`, repeat: "NEVER", body }, options);
  }

  /**
   * Delete an additional API key. Every request that starts after this answer refuses each value of
   * the key. The main key cannot be deleted: 409.
   *
   * DELETE /api-keys/{apiKeyId}. The client repeats the call if no answer comes.
   */
  deleteApiKey(apiKeyId: string, options: CallOptions = {}): Promise<void> {
    return this.#connection.call<void>({ method: "DELETE", path: `/api-keys/${segment("apiKeyId", apiKeyId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * List API keys. The main key and every additional key that is not deleted, without the values.
   *
   * GET /api-keys. The client repeats the call if no answer comes.
   */
  listApiKeys(params: ListApiKeysParams = {}, options: CallOptions = {}): Promise<ScopedKeyPage> {
    return this.#connection.call<ScopedKeyPage>({ method: "GET", path: `/api-keys`, repeat: "ALWAYS", query: { order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listApiKeys, over all pages. */
  apiKeys(params: ListApiKeysParams = {}, options: CallOptions = {}): AsyncGenerator<ScopedKey, void, undefined> {
    return each(params.cursor, (cursor) => this.listApiKeys({ ...params, cursor }, options));
  }

  /**
   * Replace an API key. Makes a new value of the key. Only this answer shows it. Every request that
   * starts after this answer refuses the former value, unless overlapSeconds gives it more time. An
   * overlap of the main key needs additionalApiKeys, and so does every roll of another key. Of two
   * simultaneous rolls one succeeds and the other is refused with 409. If the answer is lost, roll
   * again; with the main key you can do that with the former value during its overlap. Without an
   * overlap, ask the operator of this service to roll the main key. The body may be left out.
   *
   * POST /api-keys/{apiKeyId}/roll. The client sends the call once.
   */
  rollApiKey(apiKeyId: string, body: KeyRoll = {}, options: CallOptions = {}): Promise<ScopedKeyWithValue> {
    return this.#connection.call<ScopedKeyWithValue>({ method: "POST", path: `/api-keys/${segment("apiKeyId", apiKeyId)}/roll`, repeat: "NEVER", body }, options);
  }

  /**
   * Register a webhook endpoint. The service sends events to this URL from now on, signed with a
   * secret that only this answer shows. Without events, the endpoint receives the seven events of
   * the interface; it receives an extension event only if it names it. With filters, it receives
   * only events of that customer or of that chain. An organization can have 10 endpoints.
   *
   * POST /webhook-endpoints. The client sends the call once.
   */
  createWebhookEndpoint(body: EndpointRequest, options: CallOptions = {}): Promise<EndpointWithSecret> {
    return this.#connection.call<EndpointWithSecret>({ method: "POST", path: `/webhook-endpoints`, repeat: "NEVER", body }, options);
  }

  /**
   * Delete a webhook endpoint. The service sends nothing more to the endpoint. GET /events still has
   * the events that were not delivered.
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
   * Read the progress of a resend or recovery. The job is COMPLETED when it has queued everything;
   * pending, delivered and failed count the outcomes since.
   *
   * GET /webhook-jobs/{jobId}. The client repeats the call if no answer comes.
   */
  getWebhookJob(jobId: string, options: CallOptions = {}): Promise<WebhookJob> {
    return this.#connection.call<WebhookJob>({ method: "GET", path: `/webhook-jobs/${segment("jobId", jobId)}`, repeat: "ALWAYS" }, options);
  }

  /**
   * Read the event feed. The bodies of webhooks, byte for byte, in the order of sequence, from after
   * on, for 90 days. Without types the feed has every event and the sequences have no gap, so a
   * consumer can prove that it missed nothing. A first sequence above after + 1 means that older
   * events have left the feed. Continue with the last sequence that you have seen.
   *
   * GET /events. The client repeats the call if no answer comes.
   */
  listEvents(params: ListEventsParams = {}, options: CallOptions = {}): Promise<EnvelopePage> {
    return this.#connection.call<EnvelopePage>({ method: "GET", path: `/events`, repeat: "ALWAYS", query: { after: params.after, types: params.types, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listEvents, over all pages. */
  events(params: ListEventsParams = {}, options: CallOptions = {}): AsyncGenerator<Envelope, void, undefined> {
    return each(params.cursor, (cursor) => this.listEvents({ ...params, cursor }, options));
  }

  /**
   * Read the delivery attempts of a webhook endpoint. Every attempt with its request, without the
   * signature, and the answer: the status and the first 1024 bytes. The service keeps attempts for
   * 30 days.
   *
   * GET /webhook-endpoints/{endpointId}/deliveries. The client repeats the call if no answer comes.
   */
  listWebhookDeliveries(endpointId: string, params: ListWebhookDeliveriesParams = {}, options: CallOptions = {}): Promise<DeliveryAttemptPage> {
    return this.#connection.call<DeliveryAttemptPage>({ method: "GET", path: `/webhook-endpoints/${segment("endpointId", endpointId)}/deliveries`, repeat: "ALWAYS", query: { status: params.status, eventId: params.eventId, type: params.type, since: params.since, order: params.order, limit: params.limit, cursor: params.cursor } }, options);
  }

  /** Every item of listWebhookDeliveries, over all pages. */
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

  /** Every item of listWebhookEndpoints, over all pages. */
  webhookEndpoints(params: ListWebhookEndpointsParams = {}, options: CallOptions = {}): AsyncGenerator<Endpoint, void, undefined> {
    return each(params.cursor, (cursor) => this.listWebhookEndpoints({ ...params, cursor }, options));
  }

  /**
   * Read the keys that sign webhooks. The public keys of the v1a signatures, newest first. A
   * signature by any of them is valid.
   *
   * GET /.well-known/webhook-keys. The client repeats the call if no answer comes.
   */
  listWebhookKeys(options: CallOptions = {}): Promise<WebhookKeys> {
    return this.#connection.call<WebhookKeys>({ method: "GET", path: `/.well-known/webhook-keys`, repeat: "ALWAYS", open: true }, options);
  }

  /**
   * Send a webhook endpoint the events that it missed. Queues the events since that time again, in
   * their order. With onlyFailed, the default, it queues only events that were never delivered to
   * the endpoint, also because it was disabled or did not exist; otherwise it queues all events
   * again. The present events and filters of the endpoint decide which events it receives. The job
   * runs after the answer. The same request within ten minutes returns the same job, and an endpoint
   * has one running recovery at a time.
   *
   * POST /webhook-endpoints/{endpointId}/recover. The client sends the call once.
   */
  recoverWebhookEndpoint(endpointId: string, body: RecoverRequest, options: CallOptions = {}): Promise<WebhookJob> {
    return this.#connection.call<WebhookJob>({ method: "POST", path: `/webhook-endpoints/${segment("endpointId", endpointId)}/recover`, repeat: "NEVER", body }, options);
  }

  /**
   * Send an event again. Sends the same bytes under the same webhook-id again: to the named
   * endpoint, or to every endpoint that receives the event. The same request within five seconds
   * returns the same job, and an event that is already queued is not sent twice.
   *
   * POST /events/{eventId}/resend. The client sends the call once.
   */
  resendEvent(eventId: string, body: ResendRequest, options: CallOptions = {}): Promise<WebhookJob> {
    return this.#connection.call<WebhookJob>({ method: "POST", path: `/events/${segment("eventId", eventId)}/resend`, repeat: "NEVER", body }, options);
  }

  /**
   * Give a webhook endpoint a new secret. Only this answer shows the new secret. From now on every
   * message has a v1 signature by it and, for 24 hours, one by the former secret: replace the secret
   * at your receiver in this time. If the answer is lost, call again: each secret signs for 24 hours
   * after its own replacement, at most 4 at once.
   *
   * POST /webhook-endpoints/{endpointId}/rotate-secret. The client sends the call once.
   */
  rotateWebhookSecret(endpointId: string, options: CallOptions = {}): Promise<RotatedSecret> {
    return this.#connection.call<RotatedSecret>({ method: "POST", path: `/webhook-endpoints/${segment("endpointId", endpointId)}/rotate-secret`, repeat: "NEVER" }, options);
  }

  /**
   * Send a sample to a webhook endpoint. Posts a realistic sample of that type to this endpoint
   * alone, even while it is paused or disabled, and returns the answer if it comes within 15
   * seconds. The sample has environment TEST and no sequence, and describes nothing that happened.
   * The service does not repeat it and does not count it for or against the endpoint; the log of
   * attempts has it.
   *
   * POST /webhook-endpoints/{endpointId}/test. The client sends the call once.
   */
  testWebhookEndpoint(endpointId: string, body: TestRequest, options: CallOptions = {}): Promise<DeliveryAttempt> {
    return this.#connection.call<DeliveryAttempt>({ method: "POST", path: `/webhook-endpoints/${segment("endpointId", endpointId)}/test`, repeat: "NEVER", body }, options);
  }

  /**
   * Change a webhook endpoint. Changes the fields that the body has. filters are replaced as a
   * whole, and {} removes them. While the endpoint is PAUSED, its deliveries wait. With ENABLED,
   * which also enables a disabled endpoint, and with another url, all waiting deliveries are due at
   * once, in the order of each resource and with the whole schedule. New events and filters apply to
   * changes from now on; waiting deliveries are still sent. The service queued nothing for the
   * endpoint while it was disabled: ask for those events with recover.
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
