import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { type PaymentOption, verifyAddress, WebhookError } from "../src/index.js";

// The options that the Go packages attest and verify. Without a path, the tests run in the folder of the client.
const folder = dirname(process.env.COFFER_SIGNED_VECTOR ?? "../../webhook/testdata/signed/vector.json");
const vector = JSON.parse(readFileSync(join(folder, "address.json"), "utf8")) as {
  attestKey: string; organizationId: string; checkoutId: string; options: PaymentOption[];
};
const stranger = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

function option(mintId: number): PaymentOption {
  const found = vector.options.find((o) => o.mintId === mintId);
  assert.ok(found);
  return structuredClone(found);
}

function verify(o: PaymentOption, key = vector.attestKey, organizationId = vector.organizationId, checkoutId = vector.checkoutId): void {
  verifyAddress(key, organizationId, checkoutId, o);
}

function refused(name: string, run: () => void): void {
  assert.throws(run, (error) => error instanceof WebhookError, `${name}: want it refused`);
}

test("every option of the vector is proven", () => {
  assert.equal(vector.options.length, 3);
  for (const o of vector.options) {
    verify(o);
  }
});

test("what was changed is refused", () => {
  const base = option(1), solana = option(2), bitcoin = option(3);
  const link = base.paymentUri ?? "";
  refused("another address", () => verify({ ...base, address: stranger }));
  refused("a link to another address", () => verify({ ...base, paymentUri: link.replace(base.address ?? "", stranger) }));
  refused("a link with a second address", () => verify({ ...base, paymentUri: `${link}&address=${stranger}` }));
  refused("a link of an unknown kind", () => verify({ ...bitcoin, paymentUri: `pay:${bitcoin.address}` }));
  refused("no proof", () => verify({ ...bitcoin, addressProof: null }));
  refused("another path", () => verify({ ...bitcoin, addressProof: { ...bitcoin.addressProof!, path: "m/1" } }));
  refused("another purpose", () => verify({ ...bitcoin, addressProof: { ...bitcoin.addressProof!, purpose: "CHECKOUT_SHARED" } }));
  refused("no reference", () => verify({ ...solana, reference: null }));
  refused("another reference", () => verify({ ...solana, reference: solana.sharedAddress }));
  refused("another shared address", () => verify({ ...solana, sharedAddress: solana.address }));
  refused("no address", () => verify({ ...base, address: null }));
  refused("another mint", () => verify({ ...solana, mintId: 7 }));
});

test("what belongs to others is refused", () => {
  const base = option(1);
  refused("another organization", () => verify(base, vector.attestKey, "org_2"));
  refused("another checkout", () => verify(base, vector.attestKey, vector.organizationId, "co_other"));
  refused("another key", () => verify(base, "09".repeat(32)));
  refused("no key", () => verify(base, ""));
});
