import { base64url, publicKeyOf, WebhookError } from "./webhook.js";

/** What was paid of a checkout when the payer's browser was sent back to the shop. */
export interface Statement {
  type: "RETURN";
  environment: string;
  checkoutId: string;
  organizationId: string;
  /** PROCESSING or COMPLETED. */
  status: string;
  /** Of both amounts. */
  currency: string;
  amountDue: string;
  amountPaid: string;
  issuedAt: string;
  expiresAt: string;
}

/** What was sold, what was paid for it, and in which transactions. */
export interface Receipt {
  type: "RECEIPT";
  environment: string;
  checkoutId: string;
  organizationId: string;
  shop: string;
  items: { name: string; quantity: number; unitPrice: string }[];
  currency: string;
  amountDue: string;
  amountPaid: string;
  payments: ReceiptPayment[];
  completedAt: string;
  eventSequence?: number;
  issuedAt: string;
}

/** A credited payment. The four members of the price are null where the coin is the currency. */
export interface ReceiptPayment {
  depositId: string;
  mintId: number;
  symbol: string;
  chain: string;
  /** In atomic units. */
  amount: string;
  decimals: number;
  txHash: string;
  blockHash: string;
  blockHeight: number;
  price: string | null;
  currencyPrice: string | null;
  priceSource: string | null;
  pricedAt: string | null;
  /** What the payment was worth in the currency. */
  counted: string;
  creditedAt: string;
}

const statementBytesMax = 8 << 10;
const receiptBytesMax = 1 << 20;
const receiptDomain = "coffer-receipt-1\n";
const fractionMax = 36;

/**
 * Returns a statement that one of the installation's public keys (whpk_…) signed and that has not
 * expired; throws a WebhookError otherwise. It makes no call.
 *
 * The statement may still belong to another order of the same shop: compare checkoutId with the
 * checkout that you created for this order, and organizationId and environment with your own.
 */
export function verifyStatement(statement: string, key: string | readonly string[], options: { now?: number } = {}): Statement {
  if (statement.length > statementBytesMax) {
    throw new WebhookError("body", "the statement is too long");
  }
  const parts = statement.split(".");
  const [payload, signature] = parts.map(base64url);
  if (parts.length !== 2 || payload === undefined || signature === undefined) {
    throw new WebhookError("body", "a statement is a payload and a signature in base64url, with a dot between them");
  }
  const s = verifyDocument(key, undefined, "RETURN", payload, signature) as Statement;
  const end = Date.parse(s.expiresAt);
  if (!((options.now ?? Date.now()) < end)) {
    throw new WebhookError("expired", `the statement was valid until ${s.expiresAt}: ask the API for the checkout`);
  }
  return s;
}

/**
 * Returns the receipt of a file that one of the installation's public keys (whpk_…) signed, and
 * whose amounts add up; throws a WebhookError otherwise. It makes no call.
 */
export function verifyReceipt(file: string | Uint8Array, key: string | readonly string[]): Receipt {
  if (file.length > receiptBytesMax) {
    throw new WebhookError("body", "the receipt is too long");
  }
  const f = parse(typeof file === "string" ? file : Buffer.from(file).toString("utf8"));
  const payload = typeof f.receipt === "string" ? base64url(f.receipt) : undefined;
  const signature = typeof f.signature === "string" ? base64url(f.signature) : undefined;
  if (payload === undefined || signature === undefined || typeof f.keyId !== "string" || f.keyId === "") {
    throw new WebhookError("body", "the file is no receipt: it has no payload, no signature or no key");
  }
  const r = verifyDocument(key, f.keyId, "RECEIPT", payload, signature) as Receipt;
  checkSums(r);
  return r;
}

function verifyDocument(key: string | readonly string[], keyId: string | undefined, kind: string, payload: Buffer, signature: Buffer): unknown {
  const given = typeof key === "string" ? [key] : key;
  if (given.length === 0) {
    throw new WebhookError("key", "there is no public key to verify with");
  }
  const known = given.map(publicKeyOf);
  const named = known.filter((k) => keyId === undefined || k.id === keyId);
  if (named.length === 0) {
    throw new WebhookError("signature", `it names another key than those that are given, ${known.map((k) => k.id).join(", ")}`);
  }
  const signedAs = (as: string) => named.some((k) => k.test(Buffer.concat([Buffer.from(`${receiptDomain}${as}\n`), payload]), signature));
  if (!signedAs(kind)) {
    if (["RETURN", "RECEIPT"].some(signedAs)) {
      throw new WebhookError("type", `it was signed, and is no ${kind}`);
    }
    throw new WebhookError("signature", "no key matches: it was changed after it was signed, or another installation signed it");
  }
  const document = parse(payload.toString("utf8"));
  if (document.type !== kind) {
    throw new WebhookError("type", `it was signed, and is no ${kind}`);
  }
  return document;
}

function parse(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new WebhookError("body", "it is not JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new WebhookError("body", "it is no JSON object");
  }
  return value as Record<string, unknown>;
}

/** The items are the amount due, and what was counted is at least the amount paid. */
function checkSums(r: Receipt): void {
  if (!Array.isArray(r.items) || !Array.isArray(r.payments)) {
    throw new WebhookError("body", "the receipt has no items or no payments");
  }
  let items = 0n;
  for (const item of r.items) {
    if (!Number.isSafeInteger(item?.quantity) || item.quantity < 1) {
      throw new WebhookError("body", "the quantity of an item is no whole number");
    }
    items += scaled(item.unitPrice) * BigInt(item.quantity);
  }
  let counted = 0n;
  for (const payment of r.payments) {
    counted += valueOf(payment);
  }
  if (items !== scaled(r.amountDue)) {
    throw new WebhookError("sums", `the items are not the amount due, ${r.amountDue} ${r.currency}`);
  }
  if (counted < scaled(r.amountPaid)) {
    throw new WebhookError("sums", `the payments count for less than the amount paid, ${r.amountPaid} ${r.currency}`);
  }
}

/** What a payment counts, which is at most its amount by its price. */
function valueOf(payment: ReceiptPayment): bigint {
  if (typeof payment?.amount !== "string" || !/^(0|[1-9][0-9]{0,77})$/.test(payment.amount)) {
    throw new WebhookError("body", "the amount of a payment is no whole number");
  }
  if (!Number.isInteger(payment.decimals) || payment.decimals < 0 || payment.decimals > 77) {
    throw new WebhookError("body", "a payment has no decimals");
  }
  if ((payment.price === null) !== (payment.currencyPrice === null)) {
    throw new WebhookError("body", "a payment has half a price");
  }
  const counted = scaled(payment.counted);
  // counted <= amount / 10^decimals * price / currencyPrice, without a division.
  let left = counted * 10n ** BigInt(payment.decimals);
  let right = scaled(payment.amount);
  if (payment.price !== null) {
    left *= scaled(payment.currencyPrice);
    right *= scaled(payment.price);
  }
  if (left > right) {
    throw new WebhookError("sums", `a payment counts as ${payment.counted}, which is more than its amount by its price`);
  }
  return counted;
}

/** Reads a decimal as a multiple of 10^-36. */
function scaled(text: unknown): bigint {
  const match = typeof text === "string" ? /^(0|[1-9][0-9]{0,77})(?:\.([0-9]{1,36}))?$/.exec(text) : null;
  if (match === null) {
    throw new WebhookError("body", "an amount is no decimal number");
  }
  return BigInt((match[1] ?? "") + (match[2] ?? "").padEnd(fractionMax, "0"));
}
