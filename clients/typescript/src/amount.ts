/** What is no amount. */
export class AmountError extends Error {
  override readonly name = "AmountError";
}

const unitsMax = 2n ** 256n - 1n;

/**
 * Reads whole tokens, such as "12.5" of a mint with 6 decimals, as the string of atomic
 * units that the interface takes: "12500000". It never rounds: more digits after the
 * point than the mint has, signs, exponents and leading zeros are an AmountError.
 */
export function units(tokens: string, decimals: number): string {
  const found = /^(0|[1-9][0-9]*)(?:\.([0-9]+))?$/.exec(tokens);
  const fraction = found?.[2] ?? "";
  if (found === null || fraction.length > decimals) {
    throw new AmountError(`${JSON.stringify(tokens)} is not an amount of a mint with ${decimals} decimals`);
  }
  return parse((found[1] + fraction.padEnd(decimals, "0")).replace(/^0+(?=.)/, "")).toString();
}

/** Writes atomic units as whole tokens, exactly: "12500000" with 6 decimals is "12.5". */
export function decimal(atomic: string | bigint, decimals: number): string {
  const text = parse(atomic.toString()).toString().padStart(decimals + 1, "0");
  const whole = text.slice(0, text.length - decimals);
  const fraction = text.slice(text.length - decimals).replace(/0+$/, "");
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

function parse(atomic: string): bigint {
  if (!/^(0|[1-9][0-9]{0,77})$/.test(atomic) || BigInt(atomic) > unitsMax) {
    throw new AmountError(`${JSON.stringify(atomic)} is not a number of atomic units`);
  }
  return BigInt(atomic);
}
