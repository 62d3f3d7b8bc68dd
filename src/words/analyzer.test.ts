import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { atOnce } from '../base/turns.ts'
import { Analyzer, detectLanguage, type LanguageChoice, noLanguage } from './analyzer.ts'
import { type Language, languages } from './stemmers.ts'
import { blockMax, splitWordsInSteps, type WordSink, wordLengthMax } from './tokenizer.ts'
import { highlights } from './word-matches.ts'

const seed = 20_261_130

/** The terms of a text, those at one position joined by `|`. */
function termsOf(text: string, choice: LanguageChoice = 'english'): string[] {
  const analyzer = new Analyzer(choice)
  const terms: string[][] = []
  analyzer.analyze(text, analyzer.languageOf([[text]]), (term, position) => {
    terms[position] ??= []
    terms[position]!.push(term)
  })
  return terms.map((each) => each.join('|'))
}

describe('words of a text', () => {
  it('are runs of letters, digits and marks, in lower case and without marks', () => {
    assert.deepEqual(termsOf('Café, naïve — Ωμέγα! 42 x', 'none'), ['cafe', 'naive', 'ωμεγα', '42', 'x'])
    assert.deepEqual(termsOf('Cafe\u0301', 'none'), ['cafe'])
  })

  it('keep the marks of other scripts, which are letters there', () => {
    assert.deepEqual(termsOf('हिन्दी', 'none'), ['हिन्दी'])
    assert.deepEqual(termsOf('ёж йод', 'none'), ['ёж', 'йод'])
  })

  it('are the same for characters of one meaning', () => {
    assert.deepEqual(termsOf('ＡＢＣ ﬁne ①', 'none'), ['abc', 'fine', '1'])
  })

  it('are wholes and parts if they are joined like identifiers', () => {
    assert.deepEqual(termsOf('error_42', 'none'), ['error_42|error', '42'])
    assert.deepEqual(termsOf('v1.2.3', 'none'), ['v1.2.3|v1', '2', '3'])
    assert.deepEqual(termsOf('covid-19', 'none'), ['covid-19|covid', '19'])
    assert.deepEqual(termsOf('C++ C# A+', 'none'), ['c++|c', 'c#|c', 'a'])
    assert.deepEqual(termsOf('parseHTTPResponse', 'none'), ['parsehttpresponse|parse', 'http', 'response'])
    assert.deepEqual(termsOf('end. Next well-known', 'none'), ['end', 'next', 'well', 'known'])
  })

  it('are found by stems', () => {
    assert.deepEqual(termsOf('running runs easily'), ['run', 'run', 'easili'])
    assert.deepEqual(termsOf('Häuser Haus', 'german'), ['haus', 'haus'])
    assert.deepEqual(termsOf('été étés', 'french'), ['ete', 'ete'])
    assert.deepEqual(termsOf('книгами книга', 'russian'), ['книг', 'книг'])
  })

  it('of another script than the language are stemmed only with auto', () => {
    assert.deepEqual(termsOf('the books книгами'), ['the', 'book', 'книгами'])
    assert.deepEqual(termsOf('these are the books of книгами', 'auto').at(-1), 'книг')
  })

  it('of scripts without spaces are words and pairs of characters', () => {
    for (const [text, query] of [
      ['東京都庁に行きました', '京都'],
      ['我爱北京天安门', '北京'],
      ['iPhone手机壳', '手机'],
      ['ภาษาไทยง่ายมาก', 'ภาษา'],
    ] as const) {
      const terms = termsOf(text).flatMap((each) => each.split('|'))
      for (const term of termsOf(query).flatMap((each) => each.split('|')))
        assert.ok(terms.includes(term), `${text}: ${term} in ${terms}`)
    }
  })

  it('are where highlights look for them', () => {
    const text = 'Zoë 北京 fooBar'
    const found: string[] = []
    new Analyzer('none').analyze(text, noLanguage, (term, _position, start, end) => {
      found.push(`${term}=${text.slice(start, end)}`)
    })
    assert.deepEqual(found, ['zoe=Zoë', '北京=北京', 'foobar=fooBar', 'foo=foo', 'bar=Bar'])
  })

  it('are not split by characters without width', () => {
    assert.deepEqual(termsOf('می\u200cخواهم co\u00adoperate', 'none'), ['میخواهم', 'cooperate'])
  })
})

describe('words seen before', () => {
  it(`have the same terms and places as new ones, seed ${seed}`, () => {
    const random = seededRandom(seed)
    const alphabet = 'abcdABC019 ._--+#,  '
    const used = new Analyzer('english')
    for (let round = 0; round < 1500; round += 1) {
      const text = Array.from({ length: 24 }, () => alphabet[Math.floor(alphabet.length * random())]).join('')
      const all = [used, used, new Analyzer('english')].map((analyzer) => {
        const found: unknown[] = []
        const length = analyzer.analyze(text, 0, (term, ...place) => found.push([term, place.slice(0, 3)]))
        return { length, found }
      })
      const places: unknown[] = []
      const add: WordSink = (_word, ...place) => places.push([place.slice(0, 3)])
      const length = atOnce(splitWordsInSteps(text, add))
      assert.deepEqual(
        [all[0], all[1], { length, found: all[2]!.found.map((each) => (each as unknown[]).slice(1)) }],
        [all[2], all[2], { length: all[2]!.length, found: places }],
        text,
      )
    }
  })

  it('have stems in Bulgarian, where the stemmer replaces letters', () => {
    const analyzer = new Analyzer('bulgarian')
    const stemsOf = (text: string): readonly string[] => [...analyzer.queryTerms(text, []).keys()]
    assert.deepEqual(stemsOf('театър театри театърът'), ['театр'])
    assert.deepEqual(stemsOf('учебник учебници, монах монаси, свободен свободна'), [
      'учебник',
      'монах',
      'свободн',
    ])
  })

  it('are forgotten when there are too many, and found again', () => {
    const analyzer = new Analyzer('none')
    const text = Array.from({ length: 150_000 }, (_, index) => `w${index}`).join(' ')
    for (let round = 0; round < 2; round += 1) {
      let expected = 0
      analyzer.analyze(text, noLanguage, (term) => assert.equal(term, `w${expected++}`))
      assert.equal(expected, 150_000)
    }
  })
})

describe('the language of a text', () => {
  const sentences: Readonly<Partial<Record<Language, string>>> = {
    english: 'All human beings are born free and equal in dignity and rights.',
    german: 'Alle Menschen sind frei und gleich an Würde und Rechten geboren.',
    french: 'Tous les êtres humains naissent libres et égaux en dignité et en droits.',
    spanish:
      'Todos los seres humanos nacen libres e iguales en dignidad y derechos y deben comportarse como hermanos.',
    portuguese:
      'Todos os seres humanos nascem livres e iguais em dignidade e em direitos; são dotados de razão.',
    italian:
      'Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Essi sono dotati di ragione.',
    dutch:
      'Alle mensen worden vrij en gelijk in waardigheid en rechten geboren. Zij zijn begiftigd met verstand.',
    danish:
      'Alle mennesker er født frie og lige i værdighed og rettigheder. De er udstyret med fornuft, og de bør handle mod hverandre efter hvad der er ret.',
    norwegian:
      'Alle mennesker er født frie og med samme menneskeverd. De er utstyrt med fornuft og bør ikke handle nå uten å tenke, etter hva de ble lært.',
    swedish: 'Alla människor är födda fria och lika i värde och rättigheter. De har utrustats med förnuft.',
    finnish:
      'Kaikki ihmiset syntyvät vapaina ja tasavertaisina. Heillä on järki ja omatunto, ja se on hyvin tärkeä.',
    hungarian:
      'Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az emberek ésszel élnek.',
    romanian:
      'Toate ființele umane se nasc libere și egale în demnitate și în drepturi. Ele sunt înzestrate cu rațiune.',
    turkish:
      'Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdan ile bir arada olan daha çok.',
    indonesian:
      'Semua orang dilahirkan merdeka dan mempunyai martabat dan hak yang sama. Mereka tidak sendiri.',
    irish:
      'Saolaítear na daoine uile saor agus comhionann ina ndínit agus ina gcearta. Tá bua an réasúin acu.',
    lithuanian: 'Visi žmonės gimsta laisvi ir lygūs savo orumu ir teisėmis. Jie yra apdovanoti protu.',
    russian: 'Все люди рождаются свободными и равными в своём достоинстве и правах. Они наделены разумом.',
    ukrainian: 'Всі люди народжуються вільними і рівними у своїй гідності та правах. Вони наділені розумом.',
    bulgarian: 'Всички хора се раждат свободни и равни по достойнство и права. Те са надарени с разум.',
    serbian:
      'Сва људска бића рађају се слободна и једнака у достојанству и правима. Она су обдарена разумом.',
    hindi: 'सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।',
    nepali: 'सबै व्यक्तिहरू जन्मजात स्वतन्त्र हुन् र तिनीहरूको समान अधिकार छ। यो भनेको महत्व हो।',
    arabic: 'يولد جميع الناس أحراراً متساوين في الكرامة والحقوق',
    greek: 'Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια',
    tamil: 'மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்',
    armenian: 'Բոլոր մարդիկ ծնվում են ազատ ու հավասար',
  }

  it('is told by its script and its frequent words', () => {
    for (const language of languages) assert.equal(detectLanguage(sentences[language]!), language)
  })

  it('is English without evidence, and unknown without letters', () => {
    assert.equal(detectLanguage('xyzzy plugh'), 'english')
    assert.equal(detectLanguage('123 !'), undefined)
  })

  it('decides how words are stemmed, and a query has the stems of the languages that there are', () => {
    const analyzer = new Analyzer('auto')
    const counts = languages.map((language) => (language === 'english' || language === 'german' ? 50 : 0))
    assert.deepEqual([...analyzer.queryTerms('running', counts).keys()], ['run', 'running'])
    assert.deepEqual([...analyzer.queryTerms('running', [100]).keys()], ['run'])
    assert.deepEqual([...analyzer.queryTerms('running', []).keys()], ['run'])
  })

  it('makes frequent words weigh less in a query', () => {
    assert.deepEqual(
      [...new Analyzer('english').queryTerms('the dog and the cat', [])],
      [
        ['the', 0.4],
        ['dog', 1],
        ['and', 0.2],
        ['cat', 1],
      ],
    )
  })
})

describe('highlights', () => {
  it('are the words whose terms the query has, joined where they overlap', () => {
    const analyzer = new Analyzer('english')
    const text = 'Runs of error_42, running; the runner'
    const found = atOnce(highlights(analyzer, text, 0, analyzer.queryTerms('run error_42', [])))
    assert.deepEqual(
      found.map(({ start, end }) => text.slice(start, end)),
      ['Runs', 'error_42', 'running'],
    )
  })
})

describe('hostile texts', () => {
  const texts = {
    'a word of 1 MiB': 'a'.repeat(2 ** 20),
    'many distinct words': Array.from({ length: 250_000 }, (_, index) => `w${index}`).join(' '),
    'many combining marks': `a${'\u0301'.repeat(250_000)}`,
    'many joiners of zero width': `a${'\u200d'.repeat(250_000)}b`,
    'joined words': 'a_'.repeat(125_000),
    camelCase: 'aB'.repeat(125_000),
    'marks and humps': 'a\u0301B'.repeat(75_000),
    'invalid surrogates': '\ud800a\udc00'.repeat(75_000),
    'many Han': '的'.repeat(250_000),
    'many Thai vowels': 'กา'.repeat(125_000),
    'right to left': '\u202eשלום مرحبا\u202c '.repeat(12_500),
    'ligatures that grow': '\ufdfa'.repeat(125_000),
  }
  for (const [name, text] of Object.entries(texts)) {
    it(`take memory and time by their length: ${name}`, { timeout: 60_000 }, () => {
      let [terms, longest, before] = [0, 0, 0]
      const analyzer = new Analyzer('auto')
      const language = analyzer.languageOf([[text]])
      const steps = analyzer.analyzeInSteps(text, language, (term, position, start, end) => {
        terms += 1
        longest = Math.max(longest, term.length)
        assert.ok(start < end && end <= text.length && position <= terms)
      })
      let step = steps.next()
      for (; step.done !== true; step = steps.next()) {
        assert.ok(terms - before <= 2 * blockMax, 'a step passes few terms, so it takes little time')
        before = terms
      }
      const words = step.value
      assert.ok(terms <= 2 * text.length)
      assert.ok(words <= terms)
      assert.ok(longest <= 18 * wordLengthMax, `a term of ${longest}`)
    })
  }

  it('remember a word once, so that finding it stays fast', () => {
    const analyzer = new Analyzer('english')
    const hints: number[] = []
    const analyze = (text: string): void => {
      analyzer.analyze(text, 0, (_term, _position, _start, _end, hint) => hints.push(hint))
    }
    analyze(`é ${'word '.repeat(100)}`)
    analyze('another another')
    assert.equal(hints.at(-1), 0)
  })

  it('of scripts without spaces are analyzed in short steps', () => {
    const steps = [...new Analyzer('auto').analyzeInSteps('漢字'.repeat(blockMax), 0, () => {})]
    assert.ok(steps.length >= (2 * blockMax) / 512, `${steps.length} steps`)
  })

  it('have the same terms for queries, of one analysis for languages that stem them alike', () => {
    const mixed =
      'Die Häuser, les maisons; собаки C++ v1.2.3 漢字のrunning parseHTTPResponse Σίσυφος ½ µm ﬁles '
    for (const choice of ['auto', 'german', 'none'] as const) {
      for (const text of [mixed, ...Object.values(texts).map((each) => each.slice(0, 300))]) {
        const analyzer = new Analyzer(choice)
        const [words, stemming] = [atOnce(analyzer.wordsOf(text)), analyzer.stemming(text)]
        const alike = new Map<string, unknown>()
        for (let language = 0; language <= noLanguage; language += 1) {
          const expected: (readonly [string, number])[] = []
          analyzer.analyze(text, language, (term, position) => expected.push([term, position]))
          const found = words.map((word) => [analyzer.termIn(word, language), word.position] as const)
          assert.deepEqual(
            found.filter(([term]) => term !== ''),
            expected,
          )
          assert.deepEqual(alike.get(stemming(language)) ?? expected, expected)
          alike.set(stemming(language), expected)
        }
      }
    }
  })

  it('have words at positions that never fall', () => {
    for (const text of Object.values(texts)) {
      let last = 0
      const check: WordSink = (_word, position) => {
        assert.ok(position >= last)
        last = position
      }
      atOnce(splitWordsInSteps(text.slice(0, 20_000), check))
    }
  })
})
