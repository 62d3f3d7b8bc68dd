import { createHash } from 'node:crypto'
import { frequentWordWeight } from './bm25.ts'
import { KnownWords } from './known-words.ts'
import { detectLanguage, isFrequentWord } from './language-detection.ts'
import {
  commonLanguage,
  isWrittenIn,
  type Language,
  languages,
  scriptOf,
  stemmers,
  usualScript,
} from './stemmers.ts'
import { isAscii, splitAsciiWords, splitWords, type WordSink } from './tokenizer.ts'

/**
 * Texts to terms: words (tokenizer.ts), NFKC, lower case, stem, and without the marks of Latin and Greek letters. The
 * stem comes before the folding of marks, because stemmers read marks: "été" is not "ete" in French.
 */

/** What a collection declares: a language, `auto` for that of each text, or `none` for no stems. */
export type LanguageChoice = 'auto' | 'none' | Language

/** Raise it when the terms of any text change. Data of another version are indexed again. */
const analysisVersion = 1

/** The version of the analysis, which depends on the Unicode data of this process. */
export const analyzerVersion: string = createHash('sha256')
  .update(`${analysisVersion} ${process.versions.icu} ${process.versions.unicode}`)
  .digest('hex')
  .slice(0, 16)

/** Receives a term of a text, with the place of its word in the text. */
export type TermSink = (term: string, position: number, start: number, end: number) => void

/** Stems are remembered for this many words of a language; then the memory begins anew. */
const cachedWordsMax = 65_536

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

  constructor(choice: LanguageChoice) {
    this.choice = choice
  }

  /** Returns the number of the language of the texts of a point; `noLanguage` if words are not stemmed. */
  languageOf(texts: readonly (readonly string[])[]): number {
    if (this.choice === 'none') return noLanguage
    if (this.choice !== 'auto') return languages.indexOf(this.choice)
    return languages.indexOf(detectLanguage(texts.flat().join('\n')) ?? 'english')
  }

  /** Passes the terms of a text in a language to `sink`. Returns the number of words, which is the length of the text. */
  analyze(text: string, language: number, sink: TermSink): number {
    this.#known[language] ??= new KnownWords()
    this.#others[language] ??= new Map()
    const known = this.#known[language]
    const others = this.#others[language]
    const addWord: WordSink = (word, position, start, end, kind) => {
      const term = kind === 'whole' ? normalized(word) : this.#termOf(word, language, others)
      if (kind === 'simple' && isAscii(word)) known.add(word, term)
      if (term !== '') sink(term, position, start, end)
    }
    if (!isAscii(text)) return splitWords(text, addWord)
    return splitAsciiWords(text, addWord, (_text, start, end, hash, position) => {
      const term = known.find(text, start, end, hash)
      if (term === undefined) return false
      sink(term, position, start, end)
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
    for (const language of this.queryLanguages(text, documents)) {
      const weights = new Map<string, number>()
      this.analyze(text, language, (term, _position, start, end) => {
        const isFrequent = isFrequentWord(text.slice(start, end).toLowerCase(), languages[language])
        weights.set(term, (weights.get(term) ?? 0) + (isFrequent ? frequentWordWeight : 1))
      })
      for (const [term, weight] of weights) {
        if (all.size < queryTermsMax || all.has(term)) all.set(term, Math.max(weight, all.get(term) ?? 0))
      }
    }
    return all
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

/** Returns the term of a word: empty if nothing is left of it. */
function termOf(word: string, language: number, isAuto: boolean): string {
  const lower = normalized(word)
  if (lower.length > stemLengthMax) return folded(lower)
  const stemming = stemmingLanguage(lower, language, isAuto)
  return folded(stemming === undefined ? lower : stemmers[stemming](lower) || lower)
}

/**
 * Returns the language whose stemmer fits a word of a text in `language`: that language if it has the word's script,
 * else with `auto` the most common language of the script.
 */
function stemmingLanguage(lower: string, language: number, isAuto: boolean): Language | undefined {
  if (language === noLanguage) return undefined
  const script = scriptOf(lower)
  if (script === undefined) return undefined
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
