// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {ERC20} from "./ERC20.sol";

/// A token of the kind that USDT is on Ethereum: older than the rule that
/// calls return a bool, so they return nothing, and an allowance has to be
/// taken back to zero before it is set anew.
contract Tether is ERC20 {
    address public immutable owner = msg.sender;

    constructor(string memory name_, string memory symbol_, uint8 decimals_) {
        describe(name_, symbol_, decimals_);
    }

    function mint(address to, uint256 value) external {
        require(msg.sender == owner, "only the owner");
        create(to, value);
    }

    function transfer(address to, uint256 value) external {
        move(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) external {
        spend(from, value);
        move(from, to, value);
    }

    function approve(address spender, uint256 value) external {
        require(value == 0 || allowance[msg.sender][spender] == 0, "take the allowance back first");
        allow(spender, value);
    }
}
