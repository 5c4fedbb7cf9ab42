// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// Misbehaves: balances are shares of a supply that its owner changes without
/// any transfer, so every holder has more or less from one block to the next.
contract RebasingToken {
    string public name;
    string public symbol;
    uint8 public immutable decimals;
    address public immutable owner = msg.sender;
    uint256 public totalSupply;
    uint256 private totalShares;
    mapping(address => uint256) private shares;

    event Transfer(address indexed from, address indexed to, uint256 value);

    constructor(string memory name_, string memory symbol_, uint8 decimals_) {
        name = name_;
        symbol = symbol_;
        decimals = decimals_;
    }

    function balanceOf(address account) public view returns (uint256) {
        return totalShares == 0 ? 0 : shares[account] * totalSupply / totalShares;
    }

    function mint(address to, uint256 value) external {
        require(msg.sender == owner, "only the owner");
        uint256 added = totalShares == 0 ? value * 1e18 : toShares(value);
        totalSupply += value;
        totalShares += added;
        shares[to] += added;
        emit Transfer(address(0), to, value);
    }

    /// Scales every balance by numerator / denominator.
    function rebase(uint256 numerator, uint256 denominator) external {
        require(msg.sender == owner, "only the owner");
        totalSupply = totalSupply * numerator / denominator;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        uint256 moved = toShares(value);
        require(shares[msg.sender] >= moved, "balance too small");
        shares[msg.sender] -= moved;
        shares[to] += moved;
        emit Transfer(msg.sender, to, value);
        return true;
    }

    function toShares(uint256 value) private view returns (uint256) {
        return value * totalShares / totalSupply;
    }
}
