// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// A receiver that takes the coin only while it is told to, so that a payment
/// to it can be made to fail on the chain.
contract Refuser {
    bool public accepting;

    function accept(bool on) external {
        accepting = on;
    }

    receive() external payable {
        require(accepting, "no, thank you");
    }
}
