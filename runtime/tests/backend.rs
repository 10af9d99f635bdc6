//! The conformance suite: one list of test bodies, each run on `uring`, on `glommio` and in the simulator.
//!
//! A body runs on every shard of one node (most have one shard). What it may use is in its [`World`]: a directory, an
//! IP address, queues between the shards, a board to leave numbers on. It must not use the system directly.

#![allow(clippy::disallowed_types, reason = "the board is shared by the shards of a test, outside the runtime")]

#[path = "backend/files.rs"]
mod files;
#[path = "backend/meshes.rs"]
mod meshes;
#[path = "backend/sockets.rs"]
mod sockets;
#[path = "backend/tasks.rs"]
mod tasks;
#[path = "backend/world.rs"]
mod world;

#[cfg(feature = "glommio")]
use world::on_glommio;
use world::{on_sim, on_uring};

/// Makes the tests `uring::NAME`, `glommio::NAME` and `sim::NAME` of each body; the number is how many shards run it.
macro_rules! conformance {
    ($($module:ident { $($name:ident: $shards:literal,)* })*) => {
        mod uring {
            $($(
                #[test]
                fn $name() {
                    super::on_uring($shards, super::$module::$name);
                }
            )*)*
        }
        #[cfg(feature = "glommio")]
        mod glommio {
            $($(
                #[test]
                fn $name() {
                    super::on_glommio($shards, super::$module::$name);
                }
            )*)*
        }
        mod sim {
            $($(
                #[test]
                fn $name() {
                    super::on_sim($shards, super::$module::$name);
                }
            )*)*
        }
    };
}

conformance! {
    tasks {
        join_returns_the_value: 1,
        tasks_take_turns: 1,
        a_busy_class_does_not_starve_another: 1,
        yield_if_needed_lets_others_run: 1,
        sleep_lasts: 1,
        timers_fire_in_order: 1,
        a_passed_deadline_still_yields: 1,
        timeout_drops_what_is_late: 1,
        clocks_advance_together: 2,
        random_words_differ: 2,
        a_gate_waits_for_its_passes: 1,
        a_semaphore_is_fair: 1,
        a_dropped_waiter_leaves_the_line: 1,
        every_shard_knows_its_place: 3,
        shards_go_on_until_all_mains_returned: 2,
    }
    files {
        what_is_written_is_read: 1,
        a_read_at_the_end_is_short: 1,
        operations_are_counted: 1,
        writes_run_side_by_side: 1,
        a_durable_write_is_read_by_another_shard: 2,
        a_dropped_write_keeps_its_buffer: 1,
        open_options_are_honoured: 1,
        names_change: 1,
        a_file_has_two_names: 1,
        a_trim_cuts_the_last_page: 1,
        room_that_was_promised_reads_as_zeros: 1,
        empty_directories_are_removed: 1,
        directories_are_made_and_listed: 1,
        the_space_of_a_directory_is_told: 1,
        small_files_are_replaced: 1,
        a_lock_is_exclusive: 1,
    }
    sockets {
        bytes_come_back: 1,
        a_large_transfer_is_whole: 1,
        many_connections_at_once: 1,
        a_connection_moves_to_another_shard: 2,
        what_was_queued_arrives_before_the_end: 1,
        data_is_read_after_the_peer_left: 1,
        a_pause_stops_the_sender: 1,
        unread_data_does_not_stop_others: 1,
        connecting_to_nobody_is_refused: 1,
        a_port_is_taken_once: 1,
        a_source_port_is_kept: 1,
        shutdown_ends_both_directions: 1,
        sending_to_one_who_left_fails: 1,
        writes_of_one_turn_are_gathered: 1,
    }
    meshes {
        messages_keep_their_order: 3,
        a_full_queue_gives_the_message_back: 2,
        senders_wait_for_space: 2,
        a_sleeping_shard_is_woken: 2,
        requests_and_replies: 2,
        undelivered_messages_are_dropped: 2,
    }
}

/// Misaligned direct I/O, for which the simulator panics instead of failing.
#[test]
fn unaligned_calls_are_refused() {
    on_uring(1, files::unaligned_calls_are_refused);
    #[cfg(feature = "glommio")]
    on_glommio(1, files::unaligned_calls_are_refused);
}
