export * from "./api.js";
export { verifyAddress } from "./address.js";
export { AmountError, decimal, units } from "./amount.js";
export { type Answer, type CallOptions, CofferError, NoAnswer, NotModified, type Options, Refusal } from "./http.js";
export { type Receipt, type ReceiptPayment, type Statement, verifyReceipt, verifyStatement } from "./receipt.js";
export { type RequestHeaders, receive, type VerifyOptions, verify, WebhookError } from "./webhook.js";
