// demo: a small preference task that is made up here: a shop's customers ask, and a reply is preferred that
// is courteous and gets the order right. A rule can check that, so what training changes can be counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::demo {

// What a customer said, and what a reply has to get right.
struct Order {
  std::string name, count, colour, thing;

  bool operator==(const Order&) const = default;
};

struct Request {
  Order order;
  std::string prompt;  // a dialogue up to the assistant's turn
};

// A request with the reply that someone gave.
struct Conversation {
  Request request;
  std::string reply;
};

// A request with two replies, of which the rule accepts one.
struct Preference {
  Request request;
  std::string chosen, rejected;
};

// Everything that is trained on and tested with. No order stands in two of the lists but that the held-out
// conversations and preferences answer the same requests.
struct Task {
  std::vector<Conversation> conversations, held_out_conversations;
  std::vector<Preference> preferences, held_out_preferences;
};

struct TaskSizes {
  std::size_t conversations = 0, preferences = 0, held_out = 0;
};

// The same for a seed on every machine. There are 15,360 orders.
Task make_task(const TaskSizes& sizes, std::uint64_t seed);

// What the rule says of a reply, and why it says no.
enum class Verdict { accepted, rude, unhelpful, wrong_order, garbled };

// Only a courteous sentence, whole, with the customer's name and the very order is accepted.
Verdict judge(const Order& order, std::string_view reply);

std::string_view name_of(Verdict verdict);

// The words that the task is made of, as a byte-level tokenizer cuts them: with the space before them.
std::vector<std::string> words_of_task();

}  // namespace dpo::demo
