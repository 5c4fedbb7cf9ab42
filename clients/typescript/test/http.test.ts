import assert from "node:assert/strict";
import test from "node:test";
import { type Answer, Coffer, CofferError, NoAnswer, NotModified, Refusal } from "../src/index.js";

type Step = { status: number; code?: string; after?: string } | "cut" | "refuse";

/** A service that follows a script, and what it was asked. */
function scripted(...steps: Step[]): { coffer: Coffer; asked: string[] } {
  const asked: string[] = [];
  const plan = [...steps];
  const coffer = new Coffer({
    baseUrl: "http://127.0.0.1:1/v1",
    apiKey: "ck_secret",
    fetch: async (url, init) => {
      assert.equal(new Headers(init?.headers).get("x-api-key"), "ck_secret");
      asked.push(`${init?.method} ${String(url)} ${String(init?.body ?? "")}`);
      const step = plan.shift();
      if (step === undefined || step === "cut") {
        throw new TypeError("terminated");
      }
      if (step === "refuse") {
        throw new TypeError("fetch failed", { cause: Object.assign(new Error("refused"), { code: "ECONNREFUSED" }) });
      }
      const headers: Record<string, string> = { "x-request-id": "req_1" };
      if (step.after !== undefined) {
        headers["retry-after"] = step.after;
      }
      const body = step.status < 300 ? { withdrawalId: "wd_1" } : { error: "Refused. Nothing was sent.", code: step.code ?? "", requestId: "req_1", retryable: false };
      return new Response([204, 304].includes(step.status) ? null : JSON.stringify(body), { status: step.status, headers });
    },
  });
  return { coffer, asked };
}

const withdraw = { mintId: 1, customerId: "a", amount: "5", toAddress: "0x1" };

test("payments are repeated with their key alone, and their errors say what is known", async () => {
  const cases: [string, string | undefined, Step[], number, { code?: string; silent?: boolean; unknown?: boolean }][] = [
    ["taken at once", "k", [{ status: 202 }], 1, {}],
    ["no answer, then taken", "k", ["cut", { status: 202 }], 2, {}],
    ["5xx, then taken", "k", [{ status: 503, after: "1" }, { status: 202 }], 2, {}],
    ["refused", "k", [{ status: 422, code: "INSUFFICIENT_BALANCE" }], 1, { code: "INSUFFICIENT_BALANCE" }],
    ["never answered", "k", ["cut", "cut", "cut", "cut"], 4, { silent: true, unknown: true }],
    ["never reached", "k", ["refuse", "refuse", "refuse", "refuse"], 4, { silent: true }],
    ["5xx, then refused", "k", [{ status: 500 }, { status: 422, code: "INSUFFICIENT_BALANCE" }], 2, { code: "INSUFFICIENT_BALANCE" }],
    ["no answer, then refused", "k", ["cut", { status: 422, code: "INSUFFICIENT_BALANCE" }], 2, { code: "INSUFFICIENT_BALANCE", unknown: true }],
    ["5xx, then the key was rolled", "k", [{ status: 500 }, { status: 401, code: "UNAUTHORIZED" }], 2, { code: "UNAUTHORIZED", unknown: true }],
    ["without a key, no answer", undefined, ["cut"], 1, { silent: true, unknown: true }],
    ["without a key, 5xx", undefined, [{ status: 500, code: "INTERNAL" }], 1, { code: "INTERNAL", unknown: true }],
    ["without a key, limited", undefined, [{ status: 429, code: "RATE_LIMITED" }], 1, { code: "RATE_LIMITED" }],
  ];
  await Promise.all(
    cases.map(async ([name, key, steps, sent, want]) => {
      const { coffer, asked } = scripted(...steps);
      const body = key === undefined ? withdraw : { ...withdraw, idempotencyKey: key };
      let last: Answer | undefined;
      let error: unknown;
      try {
        const got = await coffer.createWithdrawal(body, { onAnswer: (answer) => (last = answer) });
        assert.equal(got.withdrawalId, "wd_1", name);
        assert.equal(last?.attempts, sent, name);
      } catch (caught) {
        error = caught;
      }
      assert.equal(asked.length, sent, name);
      assert.deepEqual(asked, Array(sent).fill(asked[0]), name);
      if (want.code === undefined && want.silent !== true) {
        assert.equal(error, undefined, name);
        return;
      }
      assert.ok(error instanceof CofferError, name);
      assert.equal(error.outcomeUnknown, want.unknown === true, name);
      assert.equal(error instanceof NoAnswer, want.silent === true, name);
      if (want.code !== undefined) {
        assert.ok(error instanceof Refusal, name);
        assert.deepEqual([error.code, error.requestId], [want.code, "req_1"], name);
      }
    }),
  );
});

test("reads leave nothing open, and a deletion that is found done is done", async () => {
  const read = scripted("cut", { status: 500 }, "cut", "cut");
  await assert.rejects(read.coffer.getWithdrawal("wd_1"), (e) => e instanceof CofferError && !e.outcomeUnknown);
  assert.equal(read.asked.length, 4);
  await scripted("cut", { status: 404, code: "NOT_FOUND" }).coffer.deleteWebhookEndpoint("we_1");
  await assert.rejects(scripted({ status: 404, code: "NOT_FOUND" }).coffer.deleteWebhookEndpoint("we_1"), Refusal);
  await assert.rejects(scripted({ status: 304 }).coffer.listMints({ ifNoneMatch: "x" }), NotModified);
  await assert.rejects(scripted({ status: 307 }).coffer.listBalances(), (e) => e instanceof Refusal && e.status === 307);
});

test("a call ends with its signal", async () => {
  const stop = new AbortController();
  const { coffer, asked } = scripted({ status: 429, after: "3600" });
  const call = coffer.getWithdrawal("wd_1", { signal: stop.signal, onAnswer: () => setImmediate(() => stop.abort()) });
  await assert.rejects(call, Refusal);
  assert.equal(asked.length, 1);
});

test("the key goes nowhere else", async () => {
  for (const baseUrl of ["http://coffer.internal/v1", "ftp://127.0.0.1", "https://a:b@coffer.internal/v1", "https://coffer.internal/v1?x=1"]) {
    assert.throws(() => new Coffer({ baseUrl, apiKey: "k" }), TypeError, baseUrl);
  }
  for (const apiKey of ["", "a b", "a\r\nx: 1"]) {
    assert.throws(() => new Coffer({ baseUrl: "https://coffer.internal/v1", apiKey }), TypeError);
  }
  const { coffer } = scripted();
  assert.ok(!JSON.stringify(coffer).includes("ck_secret"));
  for (const id of ["", ".", ".."]) {
    assert.throws(() => coffer.getCustomer(id), TypeError, "an id that would change the path");
  }
});

test("plain http to another machine is taken only where it was allowed", () => {
  const key = "ck_secret";
  for (const baseUrl of ["http://coffer:8080/v1", "http://10.0.0.7/v1", "ftp://127.0.0.1/v1"]) {
    assert.throws(() => new Coffer({ baseUrl, apiKey: key }), /has to be https/, baseUrl);
    assert.throws(() => new Coffer({ baseUrl, apiKey: key, allowPlainHttp: false }), /has to be https/, baseUrl);
  }
  assert.throws(() => new Coffer({ baseUrl: "ftp://coffer/v1", apiKey: key, allowPlainHttp: true }), /has to be https/);
  for (const baseUrl of ["https://coffer.internal/v1", "http://127.0.0.1:8080/v1", "http://localhost:8080/v1"]) {
    assert.ok(new Coffer({ baseUrl, apiKey: key }), baseUrl);
  }
  assert.ok(new Coffer({ baseUrl: "http://coffer:8080/v1", apiKey: key, allowPlainHttp: true }));
});
