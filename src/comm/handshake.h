// Connects the ranks of a run to rank 0, where strangers may listen or connect too. Both sides prove that
// they know the token of the run without sending it:
//
//   rank:   hello {rank, first nonce}
//   rank 0: challenge {second nonce, proof}    The rank checks the proof before it sends anything else.
//   rank:   answer {proof}                     Rank 0 checks the proof before it accepts the rank.
//   rank 0: welcome
//
// A proof is an HMAC-SHA-256 with the token as its key, over who proves it, the rank and both nonces. So a
// proof that was overheard is worth nothing on another connection or in the other direction. The handshake
// protects the start; what follows on the connection is neither encrypted nor signed.
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
  std::chrono::milliseconds all{60'000};       // until every rank is connected
  std::chrono::milliseconds stranger{10'000};  // for one connection to prove that it is a rank's
  std::size_t strangers = 128;  // at once, in addition to one for each rank; then the oldest must go
};

// Returns rank 0's connections to all others, by rank. Handles all connections concurrently, so that idle or
// invalid ones block nobody. Throws a UserError if ranks are still missing in the end.
std::vector<Connection> accept_ranks(const ListeningSocket& listening, const std::string& token, int size,
                                     const HandshakeLimits& limits = {});

// Returns a rank's connection to rank 0. Tries all addresses, with growing time-outs, until one proves that
// it is rank 0: on another network the same address and port may be another program. Throws a UserError if
// none does.
Connection connect_to_rank_0(const Endpoint& endpoint, int rank, const HandshakeLimits& limits = {});

}  // namespace dpo::comm
