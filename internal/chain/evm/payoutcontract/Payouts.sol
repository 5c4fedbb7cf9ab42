// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// Pays several payees a token of the caller in one transaction: all or none.
///
/// The caller allows this contract to move the token, and it moves tokens of the
/// caller only. It has no owner and no storage, takes no coin and never holds a
/// token: each amount goes from the caller to its payee directly, who sees the
/// caller as the sender.
contract Payouts {
    /// The payment with this number, counted from 0, was not made.
    error PaymentFailed(uint256 item);

    /// Each item is a payee in its first 20 bytes and an amount in its last 12.
    function pay(address token, bytes32[] calldata items) external {
        for (uint256 i = 0; i < items.length; i++) {
            if (!move(token, address(bytes20(items[i])), uint96(uint256(items[i])))) revert PaymentFailed(i);
        }
    }

    /// Calls transferFrom(caller, payee, amount) of the token. A token answers
    /// true or, as some do, nothing; an address without code answers nothing, too.
    function move(address token, address payee, uint256 amount) private returns (bool isMoved) {
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, shl(224, 0x23b872dd))
            mstore(add(data, 4), caller())
            mstore(add(data, 36), payee)
            mstore(add(data, 68), amount)
            let isDone := call(gas(), token, 0, data, 100, 0, 32)
            switch returndatasize()
            case 0 { isMoved := and(isDone, gt(extcodesize(token), 0)) }
            default { isMoved := and(isDone, and(gt(returndatasize(), 31), eq(mload(0), 1))) }
        }
    }
}
