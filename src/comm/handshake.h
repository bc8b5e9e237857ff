// Connects the ranks of a run to rank 0 over a network where other programs may listen or connect too. Both
// sides prove that they know the run's token without sending it:
//
//   rank:   hello {rank, first nonce}
//   rank 0: challenge {second nonce, proof}    The rank checks the proof before it sends anything else.
//   rank:   answer {proof}                     Rank 0 checks the proof before it accepts the rank.
//   rank 0: welcome
//
// A proof is an HMAC-SHA-256 with the token as its key, over the prover, the rank and both nonces. So an
// eavesdropped proof is useless on another connection or in the other direction. Only the handshake is
// protected: later messages are neither encrypted nor signed.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "comm/connection.h"

namespace dpo::comm {

enum class Prover { rank_0, other_rank };

std::string proof_of(const std::string& token, Prover prover, int rank, const std::string& nonce_of_rank,
                     const std::string& nonce_of_rank_0);

struct HandshakeLimits {
  std::chrono::milliseconds all{60'000};        // until every rank is connected
  std::chrono::milliseconds handshake{10'000};  // for one connection to prove that it belongs to a rank
  std::size_t most_pending = 128;  // in addition to one per rank; beyond that, the oldest is closed
};

// Returns rank 0's connections to all other ranks, by rank. Handles all connections concurrently, so idle or
// invalid ones block no other. Throws a UserError if ranks are still missing at the end.
std::vector<Connection> accept_ranks(const ListeningSocket& listening, const std::string& token, int size,
                                     const HandshakeLimits& limits = {});

// Returns a rank's connection to rank 0. Tries all addresses, with growing timeouts, until one proves that it
// is rank 0; on another network, the same address and port may belong to another program. Throws a UserError
// if none does.
Connection connect_to_rank_0(const Endpoint& endpoint, int rank, const HandshakeLimits& limits = {});

}  // namespace dpo::comm
