import assert from "node:assert/strict";
import test from "node:test";
import { AmountError, decimal, units } from "../src/index.js";

const most = (2n ** 256n - 1n).toString();

test("amounts are converted exactly, both ways", () => {
  for (const [tokens, decimals, atomic] of [
    ["12.5", 6, "12500000"],
    ["0", 18, "0"],
    ["0.000001", 6, "1"],
    ["1", 0, "1"],
    ["9007199254740993", 0, "9007199254740993"], // a number would end in 2
    ["0.123456789012345678", 18, "123456789012345678"],
    [most, 0, most],
  ] as const) {
    assert.equal(units(tokens, decimals), atomic);
    assert.equal(decimal(atomic, decimals), tokens);
  }
  assert.equal(decimal("10", 2), "0.1");
});

test("what is no amount is refused", () => {
  for (const tokens of ["", "-1", "+1", "01", "1.", ".5", "1e3", " 1", "1,5", "0.0000001", "NaN", "0x1", most + "0"]) {
    assert.throws(() => units(tokens, 6), AmountError, tokens);
  }
  for (const atomic of ["", "-1", "007", "1.0", "1e3", most + "0"]) {
    assert.throws(() => decimal(atomic, 6), AmountError, atomic);
  }
});
