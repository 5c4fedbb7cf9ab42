// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {ERC20} from "./ERC20.sol";

/// Misbehaves: a transfer that it does not make answers false instead of
/// reverting. Its owner can make it refuse everything, and can make it answer
/// false to what it does make.
contract FalseToken is ERC20 {
    address public immutable owner = msg.sender;
    bool public refusing;
    bool public denying;

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

    function deny(bool on) external {
        require(msg.sender == owner, "only the owner");
        denying = on;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        if (refusing || balanceOf[msg.sender] < value) return false;
        move(msg.sender, to, value);
        return !denying;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        if (refusing || balanceOf[from] < value || allowance[from][msg.sender] < value) return false;
        spend(from, value);
        move(from, to, value);
        return !denying;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allow(spender, value);
        return true;
    }
}
