import { createHash } from "node:crypto";
import type { AddressProof, PaymentOption } from "./api.js";
import { publicKeyOf, WebhookError } from "./webhook.js";

type Test = (message: Buffer, signature: Buffer) => boolean;

/**
 * Checks without a call that an opened option pays the checkout of an organization: the signer
 * attested its address for it, and what its link and its reference name belongs to the same checkout.
 * Throws a WebhookError otherwise, also for an option that is not opened: then do not show it.
 *
 * attestKey is what the installation's file attest.pub has. Both ids are those that you stored, not
 * those of an answer.
 */
export function verifyAddress(attestKey: string, organizationId: string, checkoutId: string, option: PaymentOption): void {
  if (!/^[0-9a-f]{64}$/i.test(attestKey.trim())) {
    throw new WebhookError("key", "an attestation key has 64 hexadecimal digits");
  }
  const { test } = publicKeyOf("whpk_" + Buffer.from(attestKey.trim(), "hex").toString("base64"));
  const { address, sharedAddress, reference } = option;
  if (typeof address !== "string") {
    throw new WebhookError("body", "the option has no address");
  }
  checkProof(test, organizationId, "CHECKOUT", checkoutId, address, option.addressProof);
  if ((sharedAddress ?? null) !== null || (reference ?? null) !== null) {
    if (typeof sharedAddress !== "string" || typeof reference !== "string") {
      throw new WebhookError("body", "a shared address needs a reference");
    }
    checkProof(test, organizationId, "CHECKOUT_SHARED", "CHECKOUT", sharedAddress, option.sharedAddressProof);
    if (reference !== referenceOf(organizationId, checkoutId, option.mintId)) {
      throw new WebhookError("signature", "the reference is that of another checkout");
    }
  }
  if (typeof option.paymentUri === "string" && !pays(option.paymentUri, sharedAddress ?? address, reference ?? undefined)) {
    throw new WebhookError("signature", "the link pays another address");
  }
}

function checkProof(
  test: Test, organizationId: string, purpose: string, subject: string, address: string, proof: AddressProof | null | undefined,
): void {
  if (proof === null || proof === undefined || proof.purpose !== purpose) {
    throw new WebhookError("signature", "the proof is missing, or for another purpose");
  }
  const fields = ["coffer-address-1", organizationId, purpose, subject, proof.family, proof.path, address];
  const attested = Buffer.concat(fields.map((field) => {
    const bytes = Buffer.from(field, "utf8");
    return Buffer.concat([Buffer.from(`${bytes.length}:`), bytes]);
  }));
  if (!test(attested, Buffer.from(proof.signature, "base64"))) {
    throw new WebhookError("signature", "the signature of the address does not hold");
  }
}

/** Returns the key that names a checkout in a payment to the shared address. */
function referenceOf(organizationId: string, checkoutId: string, mintId: number): string {
  const hash = createHash("sha256");
  for (const part of ["coffer-checkout-reference-1", organizationId, checkoutId, String(mintId)]) {
    const bytes = Buffer.from(part, "utf8");
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(bytes.length));
    hash.update(length).update(bytes);
  }
  return base58(hash.digest());
}

function base58(bytes: Buffer): string {
  const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  let digits = "";
  for (let n = BigInt("0x" + bytes.toString("hex")); n > 0n; n /= 58n) {
    digits = alphabet.charAt(Number(n % 58n)) + digits;
  }
  const zeros = bytes.findIndex((b) => b !== 0);
  return "1".repeat(zeros < 0 ? bytes.length : zeros) + digits;
}

function pays(uri: string, address: string, reference: string | undefined): boolean {
  const [, scheme, target, query] = /^([a-z]+):([^?]*)(?:\?(.*))?$/.exec(uri) ?? [];
  if (scheme === undefined || target === undefined) {
    return false;
  }
  const named = new Map<string, string>();
  for (const parameter of (query ?? "").split("&")) {
    const at = parameter.indexOf("=");
    const name = at < 0 ? parameter : parameter.slice(0, at);
    if (named.has(name)) {
      return false;
    }
    named.set(name, at < 0 ? "" : parameter.slice(at + 1));
  }
  switch (scheme) {
    case "bitcoin":
      return target === address && reference === undefined;
    case "solana":
      return target === address && (named.get("reference") ?? "") === (reference ?? "");
    case "ethereum":
      if (reference !== undefined) {
        return false;
      }
      if (target.endsWith("/transfer")) {
        return target !== "/transfer" && named.get("address") === address;
      }
      return target.startsWith(address + "@");
    default:
      return false;
  }
}
