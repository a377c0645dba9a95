//! One file a hook.

mod accept;
mod entry;
mod exit;
mod migrate;
mod settle;
mod switch;
mod tcp_state;
