//! One file an event, with a program for each way to see it.

mod accept;
mod entry;
mod exit;
mod free;
mod hooks;
mod migrate;
mod pick;
mod settle;
mod switch;
mod tcp_state;
mod timing;
mod wakeup;
