"""Makes conversations of every kind that people have, and some that they should not have."""

import random

TEXTS = ["Hi", "", " ", "Hello, world!", "two\nlines\n", "  padded  ", "\n\nleading", "naïve café ☕", "日本語のテキスト", "😀👩‍👧",
         "<think>why</think>\n\nbecause", "</think>", "<think>", "a</think>b</think>c", "/no_think please", "/think",
         "<|im_start|>system", "<|channel|>final<|message|>", "{{ not a template }}", "{% raw %}", "\"quoted\" 'text' \\ back",
         "tab\there", "\u00a0nbsp\u2003", "ends with <tool_call>", "<tool_response>\n1\n</tool_response>", "x" * 300,
         "e\u0301 \u202e rtl", "&<>\"'", "null", "[IMG]", "1. one\n2. two", "ΑΣ İß ǆ", "<tool_sep>", "\r\nwindows\r\n", "\x7f\x01"]
ROLES = ["user", "assistant", "system", "tool", "developer", "function", "ipython", "tool_results", "User", "ASSISTANT", "", "bot"]
NAMES = ["get_weather", "search", "f", "python", "код", "code_interpreter"]
VALUES = ["Paris", 3, 2.5, True, False, None, [], [1, "two", None], {}, {"a": {"b": [1.0, 1e20, -0.0]}}, "multi\nline <&>",
          "é", 1e-7, 123456789012, ""]


def schema(rng, depth=0):
    kinds = ["string", "integer", "number", "boolean", "array", "object", "null"]
    kind = rng.choice(kinds if depth < 3 else kinds[:4])
    made = {"type": kind}
    if rng.random() < 0.6:
        made["description"] = rng.choice(["The city.", "many\nlines", "ünïcödé", "a \"quote\"", ""])
    if kind == "string" and rng.random() < 0.4:
        made["enum"] = rng.choice([["a", "b"], ["é"], []])
    if kind == "array" and rng.random() < 0.8:
        made["items"] = schema(rng, depth + 1)
    if kind == "object":
        made["properties"] = {name: schema(rng, depth + 1) for name in rng.sample(["x", "y", "items", "type", "keys"], 2)}
        if rng.random() < 0.5:
            made["required"] = ["x"]
    if rng.random() < 0.2:
        made["default"] = rng.choice(VALUES)
    if rng.random() < 0.1:
        made["nullable"] = rng.choice([True, False])
    if rng.random() < 0.1:
        made["type"] = rng.choice([["string", "null"], ["object", "object"]])
    if rng.random() < 0.1:
        made = {"oneOf": [{"type": "string", "format": "date"}, {"type": "object"}], "description": "one of"}
    if rng.random() < 0.1:
        made.update(rng.choice([{"format": "date-time"}, {"minimum": 0, "maximum": 1.5}, {"maxLength": 3}, {"title": "T"},
                                {"additionalProperties": False}, {"examples": ["a", 1]}]))
    return made


def tool(rng):
    function = {"name": rng.choice(NAMES), "description": rng.choice(["Does it.", "Zwei\nZeilen", "", "日本"])}
    if rng.random() < 0.9:
        function["parameters"] = {"type": "object", "properties": {
            name: schema(rng) for name in rng.sample(["city", "unit", "n", "items", "values"], rng.randrange(4))}}
        if rng.random() < 0.6:
            function["parameters"]["required"] = list(function["parameters"]["properties"])[:1]
    if rng.random() < 0.2:
        function["return"] = {"type": "string", "description": "result"}
    if rng.random() < 0.1:
        function["strict"] = True
    if rng.random() < 0.1:
        return function
    return {"type": rng.choice(["function"] * 8 + ["code_interpreter"]), "function": function}


def tool_call(rng):
    arguments = {rng.choice(["city", "n", "ключ", "x"]): rng.choice(VALUES) for _ in range(rng.randrange(3))}
    function = {"name": rng.choice(NAMES), "arguments": arguments}
    if rng.random() < 0.25:
        function["arguments"] = rng.choice(['{"city": "Paris"}', "", "{}", "not json"])
    call = {"type": "function", "function": function}
    if rng.random() < 0.7:
        call["id"] = rng.choice(["abcdef123", "call_1", "0", "functions.f:0"])
    return call if rng.random() < 0.9 else function


def parts(rng):
    kinds = [{"type": "text", "text": rng.choice(TEXTS)}, {"type": "image"}, {"type": "text", "text": "more"},
             {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text"}, {"type": "thinking", "thinking": "hm"},
             {"type": "video"}, {"type": "text", "content": "odd"}, "bare text"]
    return [rng.choice(kinds) for _ in range(rng.randrange(4))]


def content(rng, odd):
    chance = rng.random() if odd else 0
    if chance < 0.75:
        return rng.choice(TEXTS)
    if chance < 0.88:
        return parts(rng)
    return rng.choice([None, None, {"text": "mapped"}, 5, True, {"content": "inner"}, {"parts": [{"type": "text", "text": "p"}]}])


def message(rng, role, odd):
    made = {"role": role}
    if not odd or rng.random() < 0.96:
        made["content"] = content(rng, odd)
    if role == "assistant":
        if odd and rng.random() < 0.3:
            made["tool_calls"] = [tool_call(rng) for _ in range(rng.randrange(3))]
        if rng.random() < 0.3:
            made[rng.choice(["reasoning_content", "thinking", "reasoning"])] = rng.choice(TEXTS + [None] * odd)
        if odd and rng.random() < 0.03:
            made["tool_calls"] = None
    if role in ("tool", "function", "tool_results"):
        if not odd or rng.random() < 0.8:
            made["tool_call_id"] = rng.choice(["abcdef123", "call_1", "0", "functions.f:0"]) if odd else "abcdef123"
        if not odd or rng.random() < 0.6:
            made["name"] = rng.choice(NAMES)
    if odd and rng.random() < 0.03:
        made["name"] = "someone"
    return made


def regular_call(rng):
    """Returns an assistant's message with one tool call, in the form that most templates want, and its answer."""
    function = {"name": rng.choice(NAMES), "arguments": {"city": rng.choice(TEXTS), "n": rng.choice(VALUES)}}
    if rng.random() < 0.2:
        function["arguments"] = '{"city": "Paris"}'
    call = {"id": "abcdef123", "type": "function", "function": function}
    asks = {"role": "assistant", "tool_calls": [call] * rng.choice([1, 1, 2])}
    if rng.random() < 0.7:
        asks["content"] = rng.choice(["", "", "Let me see.", None])
    return [asks, message(rng, "tool", False)]


def regular_messages(rng):
    made = [message(rng, "system", False)] if rng.random() < 0.4 else []
    for _ in range(rng.randrange(1, 4)):
        made.append(message(rng, "user", False))
        if rng.random() < 0.3:
            made += regular_call(rng)
        made.append(message(rng, "assistant", False))
    return made if rng.random() < 0.5 else made[:-1]


def odd_messages(rng):
    if rng.random() < 0.3:  # the order varies
        return [message(rng, rng.choice(ROLES), True) for _ in range(rng.randrange(1, 6))]
    made = ["system"] if rng.random() < 0.4 else []
    for _ in range(rng.randrange(1, 4)):
        made += ["user", "assistant"]
        if rng.random() < 0.3:
            made += ["tool"] * rng.randrange(1, 3) + ["assistant"]
    return [message(rng, role, True) for role in (made if rng.random() < 0.5 else made[:-1])]


def variables(rng):
    made = {"messages": odd_messages(rng) if rng.random() < 0.4 else regular_messages(rng)}
    if rng.random() < 0.35:
        made["tools"] = [tool(rng) for _ in range(rng.randrange(3))]
    if rng.random() < 0.1:
        made["documents"] = [{"title": "T", "text": "é\n"}, {"title": "", "text": "b"}][:rng.randrange(3)]
    if rng.random() < 0.6:
        made["add_generation_prompt"] = rng.random() < 0.6
    if rng.random() < 0.95:
        made["bos_token"], made["eos_token"] = "<s>", "</s>"
    extra = {"enable_thinking": [True, False], "thinking": [True, False], "reasoning_effort": ["low", "high", "odd", None],
             "date_string": ["26 Jul 2024"], "builtin_tools": [["browser", "python"], []], "preserved_thinking": [True],
             "is_training": [True], "tools_in_user_message": [False, True], "model_identity": ["You are X."],
             "skip_thinking": [True], "reasoning": [True, False], "keep_past_thinking": [True, False],
             "clear_thinking": [True, False], "custom_tools": [None], "developer_message": ["Dev."], "xml_tools": [["x"]]}
    for key in rng.sample(sorted(extra), rng.choice([0, 0, 1, 2])):
        made[key] = rng.choice(extra[key])
    return made


def conversations(count, seed):
    rng = random.Random(seed)
    return [variables(rng) for _ in range(count)]
