// demo: generates a small preference task. A shop's customers ask, and the preferred reply is courteous and
// gets the order right. A rule checks that, so the effect of training can be counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::demo {

// A customer's wish, which a reply must repeat correctly.
struct Order {
  std::string name, count, colour, thing;

  bool operator==(const Order&) const = default;
};

struct Request {
  Order order;
  std::string prompt;  // a dialogue up to the assistant's turn
};

// A request with a reply, good or bad.
struct Conversation {
  Request request;
  std::string reply;
};

// A request with two replies, of which the rule accepts one.
struct Preference {
  Request request;
  std::string chosen, rejected;
};

// Training and test data. No order is in two of the lists, except that the held-out conversations and
// preferences answer the same requests.
struct Task {
  std::vector<Conversation> conversations, held_out_conversations;
  std::vector<Preference> preferences, held_out_preferences;
};

struct TaskSizes {
  std::size_t conversations = 0, preferences = 0, held_out = 0;
};

// Generates the task, the same one for a seed on every machine. There are 15,360 possible orders.
Task make_task(const TaskSizes& sizes, std::uint64_t seed);

// The rule's verdict on a reply: accepted, or the reason why not.
enum class Judgement { accepted, rude, unhelpful, wrong_order, garbled };

// Accepts only an exact copy of one of the courteous sentences, with the customer's name and order.
Judgement judge(const Order& order, std::string_view reply);

std::string_view name_of(Judgement judgement);

// Returns the words of the task as a byte-level tokenizer splits them: with the space before them.
std::vector<std::string> words_of_task();

}  // namespace dpo::demo
