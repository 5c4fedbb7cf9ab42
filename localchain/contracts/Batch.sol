// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

interface Transferable {
    function transferFrom(address from, address to, uint256 value) external;
}

/// Pays in the ways that a scanner has to get right: many payments in one
/// transaction, the coin by inner calls, inner calls that are undone, and the
/// coin pushed by a contract that destroys itself.
contract Batch {
    /// Pays a token of the caller, who has allowed it, to many at once. The
    /// same receiver may stand in the list twice.
    function sendToken(address token, address[] calldata to, uint256[] calldata values) external {
        require(to.length == values.length, "one value for each receiver");
        for (uint256 i = 0; i < to.length; i++) {
            Transferable(token).transferFrom(msg.sender, to[i], values[i]);
        }
    }

    /// Pays the coin to many at once; what is too much goes back.
    function sendNative(address payable[] calldata to, uint256[] calldata values) external payable {
        require(to.length == values.length, "one value for each receiver");
        for (uint256 i = 0; i < to.length; i++) {
            pay(to[i], values[i]);
        }
        if (address(this).balance > 0) pay(payable(msg.sender), address(this).balance);
    }

    /// Passes on what came with the call.
    function forward(address payable to) external payable {
        pay(to, msg.value);
    }

    /// Pays in an inner call that reverts and is caught: the trace shows the
    /// payment, the transaction succeeds, and nothing has moved. What came
    /// with the call goes back.
    function payAndUndo(address payable to) external payable {
        try this.payThenRevert{value: msg.value}(to) {
            revert("it was to be undone");
        } catch {}
        pay(payable(msg.sender), msg.value);
    }

    function payThenRevert(address payable to) external payable {
        pay(to, msg.value);
        revert("undone");
    }

    /// The same with a token: its event is undone with the payment.
    function sendTokenAndUndo(address token, address to, uint256 value) external {
        try this.sendTokenThenRevert(token, msg.sender, to, value) {
            revert("it was to be undone");
        } catch {}
    }

    function sendTokenThenRevert(address token, address from, address to, uint256 value) external {
        require(msg.sender == address(this), "only from within");
        Transferable(token).transferFrom(from, to, value);
        revert("undone");
    }

    /// Names a value for the receiver in a delegatecall, which moves nothing:
    /// the trace shows the call with the value of the one around it. What came
    /// goes back.
    function delegate(address to) external payable {
        (bool ok,) = to.delegatecall("");
        require(ok, "the delegate refused");
        pay(payable(msg.sender), msg.value);
    }

    /// Pays by a contract that destroys itself: no call reaches the receiver.
    function destroyTowards(address payable to) external payable {
        new Bomb{value: msg.value}(to);
    }

    function pay(address payable to, uint256 value) private {
        (bool ok,) = to.call{value: value}("");
        require(ok, "the receiver refused");
    }
}

contract Bomb {
    constructor(address payable to) payable {
        selfdestruct(to);
    }
}
