import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import test from "node:test";
import { receive, verify, WebhookError } from "../src/index.js";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const body = '{"id":"evt_1","type":"CUSTOMER_DEPOSIT","data":{"amount":"5000000"}}';
const at = 1_767_225_600;
const now = at * 1000;

const pair = generateKeyPairSync("ed25519");
const publicKey = "whpk_" + pair.publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("base64");

function v1(text: string, timestamp = at, id = "evt_1", key = secret): string {
  return "v1," + createHmac("sha256", Buffer.from(key.slice(6), "base64")).update(`${id}.${timestamp}.${text}`).digest("base64");
}

function v1a(text: string, timestamp = at, id = "evt_1"): string {
  return "v1a," + sign(null, Buffer.from(`${id}.${timestamp}.${text}`), pair.privateKey).toString("base64");
}

function headers(signature: string, timestamp: number | string = at, id = "evt_1"): Record<string, string> {
  return { "webhook-id": id, "webhook-timestamp": String(timestamp), "webhook-signature": signature };
}

function refused(reason: WebhookError["reason"], run: () => void): void {
  assert.throws(run, (error) => error instanceof WebhookError && error.reason === reason, `want it refused for its ${reason}`);
}

test("the vector of Standard Webhooks verifies", () => {
  const vector = '{"test": 2432232314}';
  const signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
  verify(vector, headers(signature, 1614265330, "msg_p5jXN8AQM9LWM0D4loKWxJek"), secret, { now: 1614265330_000 });
});

test("both kinds of signature verify, beside others, as text and as bytes", () => {
  const both = `${v1a(body)} ${v1(body, at, "evt_1", "whsec_" + Buffer.alloc(32, 7).toString("base64"))} ${v1(body)}`;
  for (const key of [secret, publicKey]) {
    verify(body, headers(both), key, { now });
    verify(Buffer.from(body), new Headers(headers(both)), key, { now });
    verify(body, { "Webhook-Id": "evt_1", "Webhook-Timestamp": String(at), "WEBHOOK-SIGNATURE": both }, key, { now });
  }
  assert.equal(receive(body, headers(both), secret, { now }).id, "evt_1");
  const other = "whsec_" + Buffer.alloc(32, 9).toString("base64");
  for (const keys of [[other, secret], [other, publicKey]]) {
    verify(body, headers(both), keys, { now });
  }
  refused("signature", () => verify(body, headers(both), [other], { now }));
  refused("signature", () => verify(body, headers(both), [], { now }));
  refused("key", () => verify(body, headers(both), [secret, "nonsense"], { now }));
});

test("a message that is not the one that was signed is refused", () => {
  for (const [key, signature] of [[secret, v1(body)], [publicKey, v1a(body)]] as const) {
    refused("signature", () => verify(body + " ", headers(signature), key, { now }));
    refused("signature", () => verify(body, headers(signature, at + 1), key, { now }));
    refused("signature", () => verify(body, headers(signature, at, "evt_2"), key, { now }));
    refused("signature", () => verify(body, headers(signature.slice(0, -2) + "A="), key, { now }));
    refused("signature", () => verify(body, headers(signature + "!"), key, { now }));
    refused("signature", () => verify(body, headers(signature.split(",")[1] ?? ""), key, { now }));
    refused("signature", () => verify(body, headers("v2," + (signature.split(",")[1] ?? "")), key, { now }));
  }
  refused("signature", () => verify(body, headers(v1(body)), publicKey, { now }));
  refused("signature", () => verify(body, headers("v1a," + v1(body).slice(3)), publicKey, { now }));
  refused("signature", () => verify(body, headers(`${"v1,AAAA ".repeat(16)}${v1(body)}`), secret, { now }));
});

test("an old or early message is refused, whatever its signature", () => {
  verify(body, headers(v1(body, at - 300), at - 300), secret, { now });
  refused("timestamp", () => verify(body, headers(v1(body, at - 301), at - 301), secret, { now }));
  refused("timestamp", () => verify(body, headers(v1(body, at + 301), at + 301), secret, { now }));
  refused("timestamp", () => verify(body, headers(v1(body)), secret, { now, tolerance: Number.NaN }));
  verify(body, headers(v1(body, at - 301), at - 301), secret, { now, tolerance: 400 });
});

test("malformed headers and keys are refused", () => {
  for (const missing of ["webhook-id", "webhook-timestamp", "webhook-signature"]) {
    refused("headers", () => verify(body, { ...headers(v1(body)), [missing]: undefined }, secret, { now }));
    refused("headers", () => verify(body, { ...headers(v1(body)), [missing]: ["a", "b"] }, secret, { now }));
  }
  for (const timestamp of ["", "now", "1.5", "-1", "01", "1e9", " 1"]) {
    refused("headers", () => verify(body, headers(v1(body), timestamp), secret, { now }));
  }
  for (const key of ["", "secret", "whsec_", "whsec_AAAA", "whsec_!!", "whpk_AAAA", "whsk_" + Buffer.alloc(32).toString("base64"), publicKey + "A"]) {
    refused("key", () => verify(body, headers(v1(body)), key, { now }));
  }
  refused("body", () => receive("{", headers(v1("{")), secret, { now }));
});
