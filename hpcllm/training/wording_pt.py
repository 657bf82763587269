"""Portuguese wordings of mined questions: data, no code. Slots as in the English ones."""

from __future__ import annotations

OPTION_MEANING = (
    "O que faz {name}?",
    "para que serve {name}",
    "O que significa {name}?",
    "{name} significado",
    "Podem me explicar {name}?",
    "Vi {name} no script de um colega. O que isso faz?",
    "Quando devo usar {name}?",
    "não entendi {name}, para que é?",
)
OPTION_NAME = (
    "Qual opção faz isto: {about}",
    "O que eu coloco para isto: {about}",
    "como se chama isto: {about}",
    "Procuro a opção com este efeito: {about}",
    "{topic}: {about} - qual delas?",
)
TABLE_VALUE = (
    "Qual é {column} de {name}?",
    "{name} {column}",
    "{column} {name}?",
    "Para {name}, qual é {column}?",
    "preciso saber {column} de {name}, não encontrei",
    "{topic}: {column} para {name}",
)
TABLE_ROW = (
    "O que devo saber sobre {name}?",
    "{topic} {name}",
    "me fale sobre {name}",
    "detalhes de {name}, por favor",
)
TABLE_COMPARE = (
    "Qual é {column} de {name} e de {other}?",
    "{name} ou {other}: {column}",
    "Como {name} e {other} diferem em {column}?",
)
TABLE_REVERSE = (
    "Qual {column} corresponde a isto: {about}",
    "{about}: qual {column}?",
    "Tenho {about}. Qual {column}?",
)
TASK = (
    "Como faço para {task}?",
    "como {task}",
    "Qual é o comando para {task}?",
    "Quero {task}. O que devo fazer?",
    "Preciso {task}, como funciona aqui?",
    "Há um jeito de {task}?",
    "passos para {task}",
    "Vocês podem me mostrar como {task}?",
)
EXAMPLE = (
    "{topic}: o que escrevo?",
    "Vocês têm um exemplo de {topic}?",
    "{topic} exemplo",
    "Preciso de um exemplo disto: {topic}",
    "{topic}, qual comando?",
    "Como funciona isto: {topic}?",
)
SECTION = (
    "O que a documentação diz sobre {topic}?",
    "{topic}",
    "{topic}?",
    "Quais são as regras para {topic}?",
    "Tenho uma dúvida sobre {topic}. O que vale?",
    "{title} {topic}",
)
ERROR = (
    "Aparece isto: {error}",
    "{error}",
    "Meu job falha com\n\n{error}\n\nO que está errado?",
    "O que significa '{error}' e o que posso fazer?",
    "erro: {error} -- ajuda",
    'Como resolvo "{error}"?',
)
KEYWORDS = ("{place}", "{place}?", "sobre {place}")

GREETINGS = ("Prezados,", "Olá,", "Bom dia,", "Boa tarde,", "Oi,", "Prezada equipe,")
CONTEXTS = (
    "Sou novo no cluster e ainda estou aprendendo.",
    "Minha orientadora pediu isto para sexta-feira.",
    "Procurei bastante e não encontrei.",
    "Desculpem se a pergunta é básica.",
    "Já tentei algumas coisas, sem sucesso.",
    "Voltei depois de um tempo fora.",
)
SIGN_OFFS = ("Obrigado", "Obrigada desde já", "Atenciosamente, Paula", "Abraços", "Grato, Rui")
PREFIXES = ("Uma dúvida: ", "oi, ", "olá, ", "Desculpe incomodar, mas ", "Pergunta: ")
SUFFIXES = (" obrigado", " valeu", " Obrigada.", " Alguma dica?", " por favor")
JOINS = (
    "{first} E mais uma coisa: {second}",
    "{first} E também: {second}",
    "Duas perguntas. {first} {second}",
    "1) {first}\n2) {second}",
)
FOLLOW_UPS = (
    "E {name}?",
    "e para {name}?",
    "E no caso de {name}?",
    "o mesmo para {name}, por favor",
)
NEXT_QUESTIONS = ("Obrigado. {question}", "certo. {question}", "{question}")
