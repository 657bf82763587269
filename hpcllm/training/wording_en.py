"""English wordings of mined questions: data, no code.

Slots: ``{topic}`` heading, ``{title}`` page title, ``{name}`` what is asked about, ``{about}`` its
description, ``{column}`` column of a table, ``{task}`` a task as a verb phrase, ``{error}`` a
message, ``{place}`` page and heading as keywords.
"""

from __future__ import annotations

OPTION_MEANING = (
    "What does {name} do?",
    "what is {name} for",
    "What does {name} mean?",
    "{name} meaning",
    "Can you explain {name}?",
    "I found {name} in a colleague's script. What does it do?",
    "When would I use {name}?",
    "{name} - what's that for?",
    "Someone told me to set {name}. What happens then?",
    "{name}?",
    "In the context of {topic}: what is {name}?",
    "I don't understand {name}, please explain",
)
OPTION_NAME = (
    "Which option or setting is it: {about}",
    "What do I set for this: {about}",
    "What is the name of this: {about}",
    "how is this called: {about}",
    "I am looking for the option with this effect: {about}",
    "{topic}: {about} - which one?",
    "Which one do I need? {about}",
    "I want this: {about}. What do I write?",
)
TABLE_VALUE = (
    "What is the {column} of {name}?",
    "{column} {name}",
    "{name} {column}?",
    "{topic}: {column} for {name}",
    "Which {column} belongs to {name}?",
    "I need the {column} for {name}.",
    "What {column} do I have with {name}?",
    "For {name}, what is the {column}?",
    "can you tell me the {column} of {name}? I can't find it",
    "{name}: {column}?",
)
TABLE_ROW = (
    "What should I know about {name} ({topic})?",
    "{topic} {name}",
    "Tell me about {name}.",
    "What is there for {name}?",
    "details on {name} please",
    "{name} overview",
)
TABLE_COMPARE = (
    "What is the {column} of {name}, and of {other}?",
    "{name} vs {other}: {column}",
    "How do {name} and {other} differ in {column}?",
    "Which {column} do {name} and {other} have?",
    "compare the {column} for {name} and {other}",
)
TABLE_REVERSE = (
    "Which {column} is it for this: {about}",
    "{about}: which {column}?",
    "What is the {column} when {about}?",
    "I have {about}. Which {column}?",
    "which {column} has {about}",
)
TASK = (
    "How do I {task}?",
    "How can I {task}?",
    "how to {task}",
    "What is the command to {task}?",
    "I want to {task}. What do I have to do?",
    "I need to {task}, how does that work here?",
    "What's the right way to {task}?",
    "Is there a way to {task}?",
    "I'm trying to {task} but don't know where to start.",
    "steps to {task}",
    "Could you show me how to {task}?",
    "Can I {task}? If so, how?",
    "{task}",
)
EXAMPLE = (
    "{topic}: what do I write?",
    "Do you have an example for {topic}?",
    "{topic} example",
    "I need an example of this: {topic}",
    "{topic}, which command?",
    "Show me {topic}",
    "How does this work: {topic}?",
    "What does it look like in practice: {topic}?",
    "command for {topic}",
)
SECTION = (
    "What do you say about {topic}?",
    "{topic}",
    "{topic}?",
    "What are the rules for {topic}?",
    "I have a question on {topic} ({title}). What applies?",
    "Anything I should know about {topic}?",
    "{title} {topic}",
    "info on {topic}",
    "what about {topic}",
)
ERROR = (
    "I get this: {error}",
    "{error}",
    "My job fails with\n\n{error}\n\nWhat is wrong?",
    "What does '{error}' mean and what can I do about it?",
    "error: {error} -- help",
    "Suddenly I see this message:\n```\n{error}\n```\nHow do I fix it?",
    "{error}\n\nnothing changed since last week, any idea?",
    'Getting "{error}" again and again. What should I do?',
    "What causes {error}?",
)
KEYWORDS = ("{place}", "{place}?", "{place} please", "about {place}")

GREETINGS = (
    "Dear support team,",
    "Hello,",
    "Hi,",
    "Hi all,",
    "Good morning,",
    "Dear colleagues,",
    "Hi there,",
    "Dear HPC team,",
)
CONTEXTS = (
    "I am new to the cluster and still learning how things work.",
    "My supervisor asked me to set this up before Friday.",
    "We are preparing a larger campaign of runs.",
    "I came back after a longer break and much seems to have changed.",
    "I searched for a while but did not find it.",
    "I share the project with three students, so I would like to get it right.",
    "My runs worked on my laptop, now I want to move them.",
    "Sorry if this is a basic question.",
    "We have a deadline next week.",
    "I usually work on another system where it was different.",
    "My notes from the course are not clear on this.",
    "I tried a few things already, without luck.",
)
SIGN_OFFS = (
    "Thanks in advance",
    "Best regards, Jana",
    "Kind regards\nTom",
    "Many thanks!",
    "Thank you, M. Ferreira",
    "Cheers",
    "Best, Priya",
    "Regards",
)
PREFIXES = (
    "Quick question: ",
    "hi, ",
    "Sorry to bother you, but ",
    "hello, ",
    "One more: ",
    "Question: ",
    "Does anybody know: ",
    "hey, ",
)
SUFFIXES = (" thanks", " thx!", " Thank you.", " (I'm a beginner)", " Any hint?", " pls")
JOINS = (
    "{first} And another thing: {second}",
    "{first} Also, {second}",
    "Two questions. {first} {second}",
    "1) {first}\n2) {second}",
    "{first} {second}",
)
FOLLOW_UPS = (
    "And {name}?",
    "and for {name}?",
    "What about {name}?",
    "And how is that for {name}?",
    "the same for {name} please",
    "ok, and {name}?",
)
NEXT_QUESTIONS = ("Thanks. {question}", "ok. {question}", "And {question}", "{question}")
