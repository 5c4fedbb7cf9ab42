// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {ERC20} from "./ERC20.sol";

/// Misbehaves: a transfer that it does not make answers false instead of
/// reverting. Its owner can make it refuse everything.
contract FalseToken is ERC20 {
    address public immutable owner = msg.sender;
    bool public refusing;

    constructor(string memory name_, string memory symbol_, uint8 decimals_) {
        describe(name_, symbol_, decimals_);
    }

    function mint(address to, uint256 value) external {
        require(msg.sender == owner, "only the owner");
        create(to, value);
    }

    function refuse(bool on) external {
        require(msg.sender == owner, "only the owner");
        refusing = on;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        if (refusing || balanceOf[msg.sender] < value) return false;
        move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        if (refusing || balanceOf[from] < value || allowance[from][msg.sender] < value) return false;
        spend(from, value);
        move(from, to, value);
        return true;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allow(spender, value);
        return true;
    }
}
