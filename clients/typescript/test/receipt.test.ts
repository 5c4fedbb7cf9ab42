import assert from "node:assert/strict";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import test from "node:test";
import { type Receipt, verifyReceipt, verifyStatement, WebhookError } from "../src/index.js";

const pair = generateKeyPairSync("ed25519");
const raw = pair.publicKey.export({ format: "der", type: "spki" }).subarray(-32);
const publicKey = "whpk_" + raw.toString("base64");
const keyId = createHash("sha256").update(raw).digest("hex").slice(0, 16);
const other = "whpk_" + Buffer.alloc(32, 9).toString("base64");
const now = Date.parse("2026-01-31T12:00:00.000Z");

// The vector that the Go package signs and verifies. Without a path, the tests run in the folder of the client.
const vector = JSON.parse(readFileSync(process.env.COFFER_SIGNED_VECTOR ?? "../../webhook/testdata/signed/vector.json", "utf8")) as {
  publicKey: string; keyId: string; statement: string; receipt: string;
};

function refused(reason: WebhookError["reason"], run: () => unknown): void {
  assert.throws(run, (error) => error instanceof WebhookError && error.reason === reason, `want it refused for its ${reason}`);
}

function signed(kind: string, document: unknown): { payload: string; signature: string } {
  const payload = Buffer.from(typeof document === "string" ? document : JSON.stringify(document));
  const signature = sign(null, Buffer.concat([Buffer.from(`coffer-receipt-1\n${kind}\n`), payload]), pair.privateKey);
  return { payload: payload.toString("base64url"), signature: signature.toString("base64url") };
}

function statement(document: unknown, kind = "RETURN"): string {
  const { payload, signature } = signed(kind, document);
  return `${payload}.${signature}`;
}

const returned = { type: "RETURN", checkoutId: "co_1", status: "COMPLETED", expiresAt: "2026-01-31T12:15:00.000Z" };

test("the vector verifies", () => {
  const s = verifyStatement(vector.statement, vector.publicKey, { now });
  assert.equal(s.checkoutId, "co_01J9ZW3M8Q4S5T6V7W8X9YZABC");
  assert.equal(s.status, "COMPLETED");
  const r = verifyReceipt(vector.receipt, [other, vector.publicKey]);
  assert.equal(r.shop, "Käse & Söhne <Köln>");
  assert.equal(r.payments.length, 2);
  assert.equal(verifyReceipt(Buffer.from(vector.receipt), vector.publicKey).amountPaid, "110.2");
  refused("signature", () => verifyStatement(vector.statement, other, { now }));
  refused("signature", () => verifyReceipt(vector.receipt, other));
  const file = JSON.parse(vector.receipt) as { receipt: string; signature: string; keyId: string };
  refused("type", () => verifyStatement(`${file.receipt}.${file.signature}`, vector.publicKey, { now }));
  const [payload, signature] = vector.statement.split(".");
  refused("type", () => verifyReceipt(JSON.stringify({ receipt: payload, signature, keyId: vector.keyId }), vector.publicKey));
});

test("a statement is refused for what is wrong with it", () => {
  assert.equal(verifyStatement(statement(returned), [other, publicKey], { now }).checkoutId, "co_1");
  verifyStatement(statement(returned), publicKey, { now: now + 15 * 60_000 - 1 });
  refused("expired", () => verifyStatement(statement(returned), publicKey, { now: now + 15 * 60_000 }));
  refused("expired", () => verifyStatement(statement({ ...returned, expiresAt: "soon" }), publicKey, { now }));
  refused("expired", () => verifyStatement(statement(returned), publicKey, { now: Number.NaN }));
  refused("type", () => verifyStatement(statement({ ...returned, type: "RECEIPT" }), publicKey, { now }));
  refused("type", () => verifyStatement(statement(returned, "RECEIPT"), publicKey, { now }));
  refused("body", () => verifyStatement(statement("no JSON"), publicKey, { now }));
  refused("body", () => verifyStatement(statement("[]"), publicKey, { now }));
  const good = statement(returned);
  for (const bad of ["", ".", good + ".", good + "=", good.replace(".", "\n."), " " + good, good.split(".")[0] ?? "", "A".repeat(9 << 10) + ".AA"]) {
    refused("body", () => verifyStatement(bad, publicKey, { now }));
  }
  for (const key of [[], ["whsec_" + Buffer.alloc(32).toString("base64")], "whpk_AAAA"]) {
    refused("key", () => verifyStatement(good, key, { now }));
  }
});

test("no character of a statement can be changed", () => {
  const good = statement(returned);
  for (let i = 0; i < good.length; i++) {
    for (const c of ["A", "Q", "_", "."]) {
      const changed = good.slice(0, i) + c + good.slice(i + 1);
      if (changed !== good) {
        assert.throws(() => verifyStatement(changed, publicKey, { now }), WebhookError);
      }
    }
  }
});

test("a receipt is refused for what is wrong with it", () => {
  const genuine = verifyReceipt(vector.receipt, vector.publicKey);
  const file = (change: (r: Receipt) => void, kind = "RECEIPT"): string => {
    const r = structuredClone(genuine);
    change(r);
    const { payload, signature } = signed(kind, r);
    return JSON.stringify({ receipt: payload, signature, keyId });
  };
  const payment = (r: Receipt) => r.payments[0] ?? assert.fail("no payment");
  const item = (r: Receipt) => r.items[0] ?? assert.fail("no item");
  assert.equal(verifyReceipt(file(() => undefined), publicKey).checkoutId, genuine.checkoutId);
  verifyReceipt(file((r) => (r.amountPaid = "110.19")), publicKey);
  refused("sums", () => verifyReceipt(file((r) => (r.amountPaid = "110.200000000000000001")), publicKey));
  refused("sums", () => verifyReceipt(file((r) => (r.amountDue = "109.98")), publicKey));
  refused("sums", () => verifyReceipt(file((r) => (r.amountDue = "109.96")), publicKey));
  refused("sums", () => verifyReceipt(file((r) => r.payments.pop()), publicKey));
  refused("sums", () => verifyReceipt(file((r) => (payment(r).counted = "80.095000000000000001")), publicKey));
  refused("sums", () => verifyReceipt(file((r) => (payment(r).price = "0.99")), publicKey));
  refused("sums", () => verifyReceipt(file((r) => (payment(r).currencyPrice = "1.01")), publicKey));
  refused("sums", () => verifyReceipt(file((r) => (payment(r).decimals = 7)), publicKey));
  refused("body", () => verifyReceipt(file((r) => (payment(r).price = null)), publicKey));
  refused("body", () => verifyReceipt(file((r) => (payment(r).decimals = 0.5)), publicKey));
  verifyReceipt(file((r) => (payment(r).price = payment(r).currencyPrice = null)), publicKey);
  for (const amount of ["", ".", "1.", "01", "-1", "1e2", "1/2", "0x1", " 1"]) {
    refused("body", () => verifyReceipt(file((r) => (r.amountPaid = amount)), publicKey));
  }
  refused("body", () => verifyReceipt(file((r) => (payment(r).amount = "1.5")), publicKey));
  refused("body", () => verifyReceipt(file((r) => (item(r).quantity = 0)), publicKey));
  refused("type", () => verifyReceipt(file(() => undefined, "RETURN"), publicKey));
  refused("signature", () => verifyReceipt(file(() => undefined), [other]));
  refused("signature", () => verifyReceipt(JSON.stringify({ ...JSON.parse(file(() => undefined)), keyId: "0000000000000000" }), publicKey));
  for (const bad of ["", "null", "[]", "{}", file(() => undefined) + file(() => undefined), '{"receipt":1}']) {
    refused("body", () => verifyReceipt(bad, publicKey));
  }
});
