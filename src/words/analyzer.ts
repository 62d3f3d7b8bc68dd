import { createHash } from 'node:crypto'
import { atOnce } from '../base/turns.ts'
import { frequentWordWeight } from './bm25.ts'
import {
  commonLanguage,
  isWrittenIn,
  type Language,
  languages,
  type Script,
  scriptOf,
  scripts,
  scriptsOf,
  stemmers,
  usualScript,
} from './stemmers.ts'
import {
  blockEnd,
  blockMax,
  isAscii,
  KnownWords,
  splitAsciiWords,
  splitWordsInSteps,
  type WordSink,
} from './tokenizer.ts'

/**
 * Texts to terms: words (tokenizer.ts), NFKC, lower case, stem, and without the marks of Latin and Greek letters. The
 * stem comes before the folding of marks, because stemmers read marks: "été" is not "ete" in French.
 */

/** What a collection declares: a language, `auto` for that of each text, or `none` for no stems. */
export type LanguageChoice = 'auto' | 'none' | Language

/** Raise it when the terms of any text change. Data of another version are indexed again. */
const analysisVersion = 2

/** The version of the analysis, which depends on the Unicode data of this process. */
export const analyzerVersion: string = createHash('sha256')
  .update(`${analysisVersion} ${process.versions.icu} ${process.versions.unicode}`)
  .digest('hex')
  .slice(0, 16)

/** Receives a term of a text, with the place of its word in the text. */
type TermSink = (term: string, position: number, start: number, end: number, hint: number) => void

/** The hint of a term without one. Others are below `knownWordsMax`: mostly, a word has the same when it comes again. */
export const noHint = -1

/** Stems are remembered for this many words of a language; then the memory begins anew. */
const cachedWordsMax = 65_536
/** Of queries, for so many in all languages together: they can have any words. */
const queryWordsMax = 8192
/** What a word takes, with its term. */
const cachedWordBytes = 100

/** Stemmers scan long words several times, and no language has such words. */
const stemLengthMax = 64

const notAscii = /[^\0-\x7f]/
const marks = /\p{M}+/gu
const foldedScripts = /[\p{Script=Latin}\p{Script=Greek}]\p{M}/u
const foldedLetters = /[\p{Script=Latin}\p{Script=Greek}]\p{M}+/gu
const wordCharacters = /[\p{L}\p{N}\p{M}]+/gu
const isOneWord = /^[\p{L}\p{N}\p{M}]+$/u

/** Makes the terms of texts and queries. */
export class Analyzer {
  readonly choice: LanguageChoice
  // By language; `noLanguage` is at the end.
  readonly #known: KnownWords[] = []
  readonly #others: Map<string, string>[] = []
  /** Terms of the words of queries. */
  readonly #ofQueries: Map<string, string>[] = []
  #countOfQueries = 0

  constructor(choice: LanguageChoice) {
    this.choice = choice
  }

  /** Returns the number of the language of the texts of a point; `noLanguage` if words are not stemmed. */
  languageOf(texts: readonly (readonly string[])[]): number {
    if (this.choice === 'none') return noLanguage
    if (this.choice !== 'auto') return languages.indexOf(this.choice)
    return languages.indexOf(detectLanguage(texts.flat().join('\n')) ?? 'english')
  }

  /** Memory of the words that are remembered, about. */
  get memoryBytes(): number {
    let bytes = 0
    for (const known of this.#known) bytes += known?.memoryBytes ?? 0
    for (const others of this.#others) bytes += cachedWordBytes * (others?.size ?? 0)
    return bytes + cachedWordBytes * this.#countOfQueries
  }

  /** Passes the terms of a text in a language to `sink`. Returns the number of words, which is the length of the text. */
  analyze(text: string, language: number, sink: TermSink): number {
    if (text.length <= blockMax) return atOnce(this.#analyzeBlock(text, language, sink))
    return atOnce(this.analyzeInSteps(text, language, sink))
  }

  /** As `analyze`. */
  *analyzeInSteps(text: string, language: number, sink: TermSink): Generator<void, number> {
    let position = 0
    for (let start = 0; start < text.length; ) {
      const [end, from, before] = [blockEnd(text, start), start, position]
      const inText: TermSink = (term, at, wordStart, wordEnd, hint) =>
        sink(term, before + at, from + wordStart, from + wordEnd, hint)
      position += yield* this.#analyzeBlock(text.slice(start, end), language, inText)
      start = end
      yield
    }
    return position
  }

  *#analyzeBlock(block: string, language: number, sink: TermSink): Generator<void, number> {
    const text = wellFormed(block)
    this.#known[language] ??= new KnownWords()
    this.#others[language] ??= new Map()
    const known = this.#known[language]
    const others = this.#others[language]
    const isAsciiText = isAscii(text)
    const addWord: WordSink = (word, position, start, end, kind) => {
      const term = kind === 'whole' ? normalized(word) : this.#termOf(word, language, others)
      // Only what `find` has missed: a word that is there twice makes every search longer.
      if (kind === 'simple' && isAsciiText) known.add(word, term)
      if (term !== '') sink(term, position, start, end, noHint)
    }
    if (!isAsciiText) return yield* splitWordsInSteps(text, addWord)
    return splitAsciiWords(text, addWord, (_text, start, end, hash, position) => {
      const number = known.find(text, start, end, hash)
      if (number === -1) return false
      sink(known.termOf(number), position, start, end, number)
      return true
    })
  }

  /** Returns the term of a word, which `others` may know. */
  #termOf(word: string, language: number, others: Map<string, string>): string {
    let term = others.get(word)
    if (term === undefined) {
      term = termOf(word, language, this.choice === 'auto')
      if (others.size >= cachedWordsMax) others.clear()
      others.set(word, term)
    }
    return term
  }

  /**
   * Returns the terms of a query with their weights: how often each occurs, frequent words of its language counting
   * less. With `auto`, a word has its term in each language that the query can be in.
   *
   * @param documents how many documents of the collection are in each language
   */
  queryTerms(text: string, documents: ArrayLike<number>): Map<string, number> {
    const all = new Map<string, number>()
    const words = atOnce(this.wordsOf(text))
    const frequentIn = new Set(words.flatMap(({ frequentIn }) => frequentIn))
    const among = this.queryLanguages(text, documents)
    const alike = among.length === 1 ? [among] : Map.groupBy(among, this.stemming(text)).values()
    for (const group of alike) {
      const terms = words.map((word) => this.termIn(word, group[0]!))
      let isFirst = true
      for (const language of group) {
        // Where no word is frequent, all have the same weights.
        if (!frequentIn.has(languages[language]!)) {
          if (!isFirst) continue
          isFirst = false
        }
        const weights = new Map<string, number>()
        for (const [at, term] of terms.entries()) {
          if (term === '') continue
          const isFrequent = words[at]!.frequentIn.includes(languages[language]!)
          weights.set(term, (weights.get(term) ?? 0) + (isFrequent ? frequentWordWeight : 1))
        }
        for (const [term, weight] of weights) {
          if (all.size < queryTermsMax || all.has(term)) all.set(term, Math.max(weight, all.get(term) ?? 0))
        }
      }
    }
    return all
  }

  /** Returns the words of a text that queries want, in steps. They are analyzed once for all languages. */
  *wordsOf(text: string): Generator<void, WantedWord[]> {
    const words: WantedWord[] = []
    let position = 0
    for (let from = 0; from < text.length; ) {
      const [end, start, before] = [blockEnd(text, from), from, position]
      const block = wellFormed(text.slice(start, end))
      const add: WordSink = (word, at, wordStart, wordEnd, kind) => {
        const lower = normalized(word)
        const isStemmed = kind !== 'whole' && lower.length <= stemLengthMax
        words.push({
          lower,
          plain: kind === 'whole' ? lower : folded(lower),
          script: isStemmed ? scriptOf(lower) : undefined,
          frequentIn: languagesOf.get(block.slice(wordStart, wordEnd).toLowerCase()) ?? [],
          position: before + at,
        })
      }
      position += isAscii(block)
        ? splitAsciiWords(block, add, () => false)
        : yield* splitWordsInSteps(block, add)
      from = end
      yield
    }
    return words
  }

  /** Returns the term of a word in a language: the one that `analyze` finds. */
  termIn({ lower, plain, script }: WantedWord, language: number): string {
    const stemming = stemmingLanguage(script, language, this.choice === 'auto')
    if (stemming === undefined) return plain
    let term = this.#ofQueries[language]?.get(lower)
    if (term === undefined) {
      term = folded(stemmers[stemming](lower) || lower)
      if (this.#countOfQueries === queryWordsMax) {
        this.#ofQueries.length = 0
        this.#countOfQueries = 0
      }
      this.#ofQueries[language] ??= new Map()
      this.#ofQueries[language].set(lower, term)
      this.#countOfQueries += 1
    }
    return term
  }

  /**
   * Returns a function of languages that returns the same for those in which a text has the same terms, because they
   * stem the words of its scripts alike.
   */
  stemming(text: string): (language: number) => string {
    const used = scriptsOf(text.normalize('NFKC').toLowerCase())
    const isAuto = this.choice === 'auto'
    return (language) => used.map((script) => stemmingLanguage(script, language, isAuto)).join(' ')
  }

  /** Returns the languages of a query. It is too short to tell, so it may be any that the collection has in its script. */
  queryLanguages(text: string, documents: ArrayLike<number>): readonly number[] {
    const detected = this.languageOf([[text]])
    if (this.choice !== 'auto') return [detected]
    const script = usualScript(languages[detected]!)
    const total = Array.from(documents).reduce((sum, count) => sum + count, 0)
    const present = languages.flatMap((language, number) =>
      documents[number]! > total * presentShare && usualScript(language) === script ? [number] : [],
    )
    return present.length === 0 ? [detected] : present
  }
}

/** Further different words of a query do not count. */
export const queryTermsMax = 1024

/** Languages of fewer documents are taken for texts that were detected wrongly, and not sought. */
const presentShare = 0.01

/** The number of `none` among the languages. */
export const noLanguage: number = languages.length

/** A word of a text that queries want. */
export interface WantedWord {
  readonly lower: string
  /** The term where it is not stemmed. */
  readonly plain: string
  /** Undefined if no language stems it. */
  readonly script: Script | undefined
  /** The languages that have it among their frequent words. */
  readonly frequentIn: readonly Language[]
  readonly position: number
}

/** Patterns take a hundred times as long where surrogates are not in pairs. */
function wellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed()
}

/** Returns the term of a word: empty if nothing is left of it. */
function termOf(word: string, language: number, isAuto: boolean): string {
  const lower = normalized(word)
  if (lower.length > stemLengthMax) return folded(lower)
  const stemming = stemmingLanguage(scriptOf(lower), language, isAuto)
  return folded(stemming === undefined ? lower : stemmers[stemming](lower) || lower)
}

/**
 * Returns the language whose stemmer fits a word of a script in a text in `language`: that language if it has the script,
 * else with `auto` the most common language of the script.
 */
function stemmingLanguage(
  script: Script | undefined,
  language: number,
  isAuto: boolean,
): Language | undefined {
  if (language === noLanguage || script === undefined) return undefined
  if (isWrittenIn(languages[language]!, script)) return languages[language]
  return isAuto ? commonLanguage(script) : undefined
}

/** NFKC and lower case. Some characters become two that do not form a word ("½"): their parts are joined. */
function normalized(word: string): string {
  if (!notAscii.test(word)) return word.toLowerCase()
  const lower = word.normalize('NFKC').toLowerCase()
  return isOneWord.test(lower) || /[._+#-]/.test(word) ? lower : (lower.match(wordCharacters) ?? []).join('')
}

function folded(lower: string): string {
  if (!notAscii.test(lower)) return lower
  const decomposed = lower.normalize('NFD')
  if (!foldedScripts.test(decomposed)) return lower
  return decomposed.replace(foldedLetters, (letter) => letter.replace(marks, '')).normalize('NFC')
}

/**
 * The language of a text: by its script, and by its frequent words where several languages share a script. Texts
 * without frequent words are of the most common language of their script.
 */

/** About 40 of the most frequent short words of each language that shares its script with others. */
const frequentWords: Readonly<Partial<Record<Language, string>>> = {
  // Snowball's English stop words.
  english:
    'i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its itself they them their theirs themselves what which who whom this that these those am is are was were be been being have has had having do does did doing would should could ought a an the and but if or because as until while of at by for with about against between into through during before after above below to from up down in out on off over under again further then once here there when where why how all any both each few more most other some such no nor not only own same so than too very can will just now',
  german:
    'der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder ich wir',
  french:
    'de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il sont avec son cette mais ou aux comme nous sa vous elle leur fait été être ces je tout deux même y lui',
  spanish:
    'de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha me si sin sobre este ya entre cuando todo esta ser son dos también fue había era muy hasta desde nos',
  portuguese:
    'de a o que e do da em um para com não uma os no se na por mais as dos como mas foi ao ele das tem à seu sua ou ser quando muito há nos já está eu também só pelo pela até isso ela entre são',
  italian:
    'di e il la che in a per un del è non i le si con una da sono al della dei come anche lo ma più nel alla questo ha gli ed delle su ci dal suo se o era nella essere stato hanno due degli cui sua',
  dutch:
    'de van een het en in is dat op te zijn met voor die niet aan er om ook als dan maar bij nog uit of door over ze hij naar tot wordt worden heeft deze hebben was kan geen meer je ik dit wel al haar',
  danish:
    'og i at det er en til på som for med af de den ikke der et har var jeg om men fra kan vi han eller så sig hun ved også efter blev være hvor end nu bliver os mig da blive dem alle når hvad over',
  norwegian:
    'og i det er på som en til at av for med har de den ikke et om var jeg men fra han kan vi så eller hun ved også etter ble være hvor enn nå blir oss meg da bli dem alle når hva over seg ut fram',
  swedish:
    'och i att det som en på är av för med den till inte har de ett om han men var jag från vi så kan eller när hon under efter också vid skulle sig där ut än nu blir oss mig då bli dem alla vad över ej',
  finnish:
    'ja on ei se että oli hän mutta ovat kun myös joka niin kuin tai sen hänen ole jos sekä mukaan olla vain vuonna voi mitä jo siitä nyt tämä mukaan ollut hyvin ne me he minä sinä kuitenkin',
  hungarian:
    'a az és hogy nem is egy van volt meg ez csak de ki már el mint még vagy ha kell azt lesz ami nagyon fel minden be lehet most ezt én ő mi te pedig után között szerint úgy sem majd akkor',
  romanian:
    'de și în a la cu pe din nu o care să un este mai pentru că au fost sau fi al dar lui prin o se ca sunt ce am ai după fără între său sa cei cele acest această ei ea el nici când unei unui',
  turkish:
    've bir bu da de için çok ile daha ne olarak ama var gibi en kadar o ben olan mi her sonra şey ya ki değil mı oldu diye yok ise veya bunu sen onun ancak biz bana tarafından göre',
  indonesian:
    'yang dan di dengan untuk dari ini itu pada tidak dalam akan adalah ke juga oleh saya sebagai atau ada mereka bisa telah sudah karena kami lebih dia anda kita seperti saat tersebut hanya satu banyak bahwa',
  irish:
    'an na agus ar go is i a le ag sé do tá de ach bhí don as sin ní seo mar nach faoi ó siad bhfuil bheith gur cé nó chun freisin sí eile leis air aige raibh mé tú muid',
  lithuanian:
    'ir kad yra su į iš tai ne jis bet kaip o apie buvo už nuo po jo dėl savo ar tik taip jie kuris jau labai gali per dar arba prie nėra be to aš mes ji kai jų',
  russian:
    'и в не на я что с он а как это по но к у из за о же от так для вы мы то все его она было был бы есть или ещё они если только уже когда до при чтобы ли быть',
  ukrainian:
    'і в не на що я з у та він до це як а за але по його так й від для про чи ми є вони все був було якщо також або ще бути вже її їх який щоб тільки коли цей при під',
  bulgarian:
    'и на да в за се не от е с по че са до това като но как ще или при след има той си към те му бе аз което която които през само вече още ги този тази може без така бъде ли',
  serbian:
    'и у је да се на за од са не су као о који то што али из до по би ће или а смо због након само која које био није може сам их им када већ још',
  hindi:
    'के में की है और से का को पर ने हैं कि एक यह भी इस नहीं तो ही कर था जो हो लिए साथ थे वह गया अपने या तक जब होता उन दिया बाद थी रहे करने',
  nepali:
    'र छ को मा ले पनि भने गर्न यो लागि हो भएको हुन गरेको एक तर छन् भन्ने उनले गर्ने थियो त्यो अनि गरे हुने नेपाली म तथा रहेको थिए के सबै अहिले',
}

const frequentSets = new Map(
  Object.entries(frequentWords).map(([language, words]) => [language, new Set(words.split(' '))] as const),
)

/** The languages of each frequent word. */
const languagesOf = new Map<string, Language[]>()
for (const [language, words] of frequentSets) {
  for (const word of words) languagesOf.set(word, [...(languagesOf.get(word) ?? []), language as Language])
}

/** More words than this do not change the result. */
const wordsMax = 400

/** Longer texts are judged by their beginning. */
const charactersMax = 4096

const wordPattern = /[\p{L}\p{M}]+/gu

/** Returns the language of a text; undefined if it has no letters of a script that has languages. */
export function detectLanguage(text: string): Language | undefined {
  const byScript = new Map<Script, number>()
  const hits = new Map<Language, number>()
  let words = 0
  const beginning = text.slice(0, charactersMax).normalize('NFC').toLowerCase()
  for (const [word] of beginning.matchAll(wordPattern)) {
    if (++words > wordsMax) break
    const script = scriptOf(word)
    if (script === undefined) continue
    byScript.set(script, (byScript.get(script) ?? 0) + 1)
    const having = languagesOf.get(word) ?? []
    // A word that several languages have says less about each.
    for (const language of having) hits.set(language, (hits.get(language) ?? 0) + 1 / having.length)
  }
  const script = scripts.reduce((most, each) =>
    (byScript.get(each) ?? 0) > (byScript.get(most) ?? 0) ? each : most,
  )
  if (!byScript.has(script)) return undefined
  let best = commonLanguage(script)
  for (const [language, count] of hits) {
    if (usualScript(language) === script && count > (hits.get(best) ?? 0)) best = language
  }
  return best
}
