// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {ERC20} from "./ERC20.sol";

/// Misbehaves: one percent of every transfer goes to its owner, and the first
/// event names the amount that was sent, not the one that arrived.
contract FeeToken is ERC20 {
    address public immutable owner = msg.sender;

    constructor(string memory name_, string memory symbol_, uint8 decimals_) {
        describe(name_, symbol_, decimals_);
    }

    function mint(address to, uint256 value) external {
        require(msg.sender == owner, "only the owner");
        create(to, value);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        moveLessFee(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        spend(from, value);
        moveLessFee(from, to, value);
        return true;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allow(spender, value);
        return true;
    }

    function moveLessFee(address from, address to, uint256 value) private {
        move(from, to, value);
        uint256 fee = value / 100;
        balanceOf[to] -= fee;
        balanceOf[owner] += fee;
    }
}
