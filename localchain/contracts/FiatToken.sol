// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {ERC20} from "./ERC20.sol";

/// A token of the kind that USDC is: it stands behind a Proxy, its owner
/// mints, may stop everything, and may stop single addresses. Both ends of a
/// transfer are looked at, and whoever moves it.
contract FiatToken is ERC20 {
    address public owner;
    bool public paused;
    mapping(address => bool) public isBlacklisted;

    event Blacklisted(address indexed account);
    event UnBlacklisted(address indexed account);
    event Pause();
    event Unpause();

    modifier onlyOwner() {
        require(msg.sender == owner, "only the owner");
        _;
    }

    modifier running() {
        require(!paused, "paused");
        _;
    }

    modifier clean(address account) {
        require(!isBlacklisted[account], "blacklisted");
        _;
    }

    /// Called once, through the proxy, in the transaction that makes it.
    function initialize(string memory name_, string memory symbol_, uint8 decimals_, address owner_) external {
        require(owner == address(0), "already initialized");
        require(owner_ != address(0), "an owner is needed");
        describe(name_, symbol_, decimals_);
        owner = owner_;
    }

    function mint(address to, uint256 value) external onlyOwner running clean(to) {
        create(to, value);
    }

    function blacklist(address account) external onlyOwner {
        isBlacklisted[account] = true;
        emit Blacklisted(account);
    }

    function unBlacklist(address account) external onlyOwner {
        isBlacklisted[account] = false;
        emit UnBlacklisted(account);
    }

    function pause() external onlyOwner {
        paused = true;
        emit Pause();
    }

    function unpause() external onlyOwner {
        paused = false;
        emit Unpause();
    }

    function transfer(address to, uint256 value) external running clean(msg.sender) clean(to) returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value)
        external
        running
        clean(msg.sender)
        clean(from)
        clean(to)
        returns (bool)
    {
        spend(from, value);
        move(from, to, value);
        return true;
    }

    function approve(address spender, uint256 value)
        external
        running
        clean(msg.sender)
        clean(spender)
        returns (bool)
    {
        allow(spender, value);
        return true;
    }
}
